// How a run that has ended is told: to the timeline, to the observer, and to the calls whose last tensors it had.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/lanes/lane.h"

namespace dabke::lanes {

struct EndedCall {
  std::unique_ptr<NegotiatedCall> call;
  Status status;
};

/// A batch that was refused, by tensor of the run why no rank has run it; empty when all have been run.
using Refusals = std::vector<Status>;

/// Tells the timeline and the observer of the batch, and says which calls it was the last of.
std::vector<EndedCall> end_run(const Run& run, const reports::BatchReport& report, const Status& status,
                               const Refusals& refused, LaneObserver& observer);

/// Tells the observer of these calls. Where it throws, those that are left belong to nobody, and are found in the
/// coordinator's table.
void report_ended(std::vector<EndedCall>& ended, LaneObserver& observer);

}  // namespace dabke::lanes

// Reports the end of a run to the timeline, to the observer, and to the calls whose last tensors it had.
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

/// For each tensor of a run, why no rank has run it; empty if all have been run.
using Refusals = std::vector<Status>;

/// Reports the batch to the timeline and the observer. Returns the calls whose last tensors it had.
std::vector<EndedCall> end_run(const Run& run, const reports::BatchReport& report, const Status& status,
                               const Refusals& refused, LaneObserver& observer);

/// Reports these calls to the observer. If this throws, the calls that are left have no owner, and are found
/// in the coordinator's table.
void report_ended(std::vector<EndedCall>& ended, LaneObserver& observer);

}  // namespace dabke::lanes

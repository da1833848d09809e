// From what the ranks have agreed on to what this rank's lanes run.
#pragma once

#include <memory>
#include <span>

#include "runtime/lanes/run.h"
#include "runtime/negotiation/negotiator.h"
#include "runtime/operation/process_set_table.h"

namespace dabke::lanes {

/// The run of one batch of an ExecuteAction. `timeline`: null when it is off.
std::unique_ptr<Run> make_run(const negotiation::ExecuteAction& action,
                              std::span<const negotiation::BatchedTensor> batch,
                              const OutstandingCalls& calls, const ProcessSetTable& process_sets,
                              std::shared_ptr<timeline::Timeline> timeline);

}  // namespace dabke::lanes

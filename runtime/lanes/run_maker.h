// Makes this rank's runs from what the ranks have agreed on.
#pragma once

#include <memory>
#include <span>

#include "runtime/lanes/run.h"
#include "runtime/negotiation/negotiator.h"
#include "runtime/operation/process_set_table.h"

namespace dabke::lanes {

/// Makes the run of one batch of an ExecuteAction. `timeline` is null if it is off.
std::unique_ptr<Run> make_run(const negotiation::ExecuteAction& action,
                              std::span<const negotiation::BatchedTensor> batch,
                              const OutstandingCalls& calls, ProcessSetTable& process_sets,
                              std::shared_ptr<timeline::Timeline> timeline);

}  // namespace dabke::lanes

// How the options of dabke_init and of dabke_next_epoch become a runtime.
#pragma once

#include <memory>
#include <optional>

#include "bindings/c/state.h"
#include "dabke/dabke.h"
#include "runtime/bootstrap/exchange_start.h"

namespace dabke {

/// Joins the job that the options and the environment describe. In an elastic job, also notes in `kept` what
/// later epochs need. May be called only within start_runtime().
Result<Opened> open_runtime(const dabke_init_options& given,
                            const std::optional<bootstrap::ExchangeGroup>& group,
                            const std::shared_ptr<ForkGuard>& fork_guard, BetweenEpochs& kept);

/// Joins the next epoch with the options of dabke_init. May be called only within start_next_epoch().
Result<Opened> open_next_epoch(const dabke_epoch_options& given, const std::shared_ptr<ForkGuard>& fork_guard,
                               BetweenEpochs& kept);

}  // namespace dabke

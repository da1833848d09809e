// The part of dabke_init_options by which a program starts a job without the environment.
#pragma once

#include <optional>

#include "dabke/dabke.h"
#include "runtime/base/status.h"
#include "runtime/bootstrap/exchange_start.h"

namespace dabke {

/// What the options give; nothing where they have no exchange. An error of which the other processes cannot be
/// told: rank, size and exchange make no place in a group.
Result<std::optional<bootstrap::ExchangeGroup>> exchange_group_of(const dabke_init_options& options);

/// Whether `ranks` makes a job. The others can be told of it.
Status check_members(const dabke_init_options& options);

}  // namespace dabke

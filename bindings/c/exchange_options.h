// The part of dabke_init_options by which a program starts a job without the environment.
#pragma once

#include <optional>

#include "dabke/dabke.h"
#include "runtime/base/status.h"
#include "runtime/bootstrap/exchange_start.h"

namespace dabke {

/// The group that the options describe; nothing if they have no exchange. An error if rank, size and exchange
/// do not make a place in a group: then the other processes cannot be notified either.
Result<std::optional<bootstrap::ExchangeGroup>> exchange_group_of(const dabke_init_options& options);

/// An error if `ranks` does not make a job. The other processes can be notified of this error.
Status check_members(const dabke_init_options& options);

}  // namespace dabke

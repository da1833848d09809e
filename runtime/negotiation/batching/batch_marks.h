// The marks of ordered tensors that travel together: decided by the root alone, and written into the orders.
//
// A rank could not decide it by itself. Orders that move no data (a barrier, an error, a set that is removed)
// end batches, but go only to the subtrees of their process set; so two ranks of one set may see different
// lists. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/settings/fusion_settings.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

/// One element of the root's list before it is numbered.
struct UnmarkedOrder {
  wire::Order* order;
  const Request* request;     // a run's
  std::uint64_t learned = 0;  // its learned batch, fused with its like only; 0: none, with whatever fits
};

/// Fills in Order::batch and Order::batch_by_tensor of all that move data; numbers count up from 0.
void mark_batches(std::span<const UnmarkedOrder> orders, const FusionSettings& settings);

}  // namespace dabke::negotiation

// The marks of ordered tensors that travel together. The root alone decides them, and writes them into the
// orders.
//
// A rank could not decide this by itself. Orders that move no data (a barrier, an error, a set that is
// removed) end batches, but go only to the subtrees of their process set. So two ranks of one set may see
// different lists. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/settings/fusion_settings.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

/// One element of the root's list before it is numbered.
struct UnmarkedOrder {
  wire::Order* order;
  const Request* request;     // of a run
  std::uint64_t learned = 0;  // the learned batch with which it is fused; 0: none, fused with all that fits
};

/// Fills in Order::batch and Order::batch_by_tensor of all orders that move data. Numbers count up from 0.
void mark_batches(std::span<const UnmarkedOrder> orders, const FusionSettings& settings);

}  // namespace dabke::negotiation

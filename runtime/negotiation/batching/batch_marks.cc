#include "runtime/negotiation/batching/batch_marks.h"

#include <algorithm>
#include <vector>

#include "runtime/negotiation/batching/planner.h"

namespace dabke::negotiation {
namespace {

bool runs_data(const UnmarkedOrder& one) {
  return one.order->kind == wire::Order::Kind::run && moves_data(one.request->kind);
}

/// The tensors between two orders that end batches.
class Stretch {
 public:
  Stretch(const FusionSettings& settings, std::size_t orders) : settings_(settings) {
    items_.reserve(orders);
    marks_.reserve(orders);
  }

  void add(const UnmarkedOrder& one, std::size_t order_index) {
    const Request& request = *one.request;
    const bool is_group = request.tensors.size() > 1;
    if (is_group) one.order->batch_by_tensor.resize(request.tensors.size());
    for (std::size_t i = 0; i < request.tensors.size(); ++i) {
      const bool apart = is_group && !settings_.mixes_groups;
      items_.push_back({{.call = request.call_of(request.tensors[i]),
                         .process_set = request.process_set,
                         .contributors = one.order->contributors,
                         .group = apart ? static_cast<std::int64_t>(order_index) : -1,
                         .learned = one.learned},
                        request.tensors[i].size_bytes()});
      marks_.push_back(is_group ? &one.order->batch_by_tensor[i] : &one.order->batch);
    }
  }

  /// Marks the tensors that were added, and begins again. Returns the next free number.
  std::uint32_t mark(std::uint32_t number) {
    if (items_.size() == 1) {
      *marks_.front() = number++;
    } else if (!items_.empty()) {
      for (const auto& batch : plan_batches(items_, settings_)) {
        for (const std::size_t item : batch) *marks_[item] = number;
        ++number;
      }
    }
    items_.clear();
    marks_.clear();
    return number;
  }

 private:
  const FusionSettings& settings_;
  std::vector<PlanItem> items_;
  std::vector<std::uint32_t*> marks_;  // one per item
};

}  // namespace

void mark_batches(std::span<const UnmarkedOrder> orders, const FusionSettings& settings) {
  Stretch stretch(settings, orders.size());
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (runs_data(orders[i])) {
      stretch.add(orders[i], i);
    } else if (wire::ends_batches(orders[i].order->kind)) {
      next = stretch.mark(next);
    }
  }
  stretch.mark(next);
  for (const UnmarkedOrder& one : orders) {
    auto& by_tensor = one.order->batch_by_tensor;
    if (by_tensor.empty() ||
        std::ranges::adjacent_find(by_tensor, std::ranges::not_equal_to()) != by_tensor.end())
      continue;
    one.order->batch = by_tensor.front();
    by_tensor.clear();
  }
}

}  // namespace dabke::negotiation

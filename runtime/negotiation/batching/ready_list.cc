#include "runtime/negotiation/batching/ready_list.h"

#include <algorithm>
#include <utility>

namespace dabke::negotiation {
namespace {

/// True if the order takes along only what the host's data plane has.
bool is_the_hosts(const ReadyOrder& ready) {
  if (ready.order.kind != wire::Order::Kind::run) return false;
  return ready.request->kind == CollectiveKind::barrier || adds_set(ready.request->kind);
}

/// Priority decides among orders that are ready at the same time. Orders that move no data keep their turn.
void sort_by_priority(std::vector<ReadyOrder>& orders) {
  const auto more_urgent = [](const ReadyOrder& a, const ReadyOrder& b) {
    return a.request->priority > b.request->priority;
  };
  for (auto first = orders.begin(); first != orders.end();) {
    auto last = first;
    while (last != orders.end() && last->moves_data()) ++last;
    if (!std::is_sorted(first, last, more_urgent)) std::stable_sort(first, last, more_urgent);
    first = last == orders.end() ? last : std::next(last);
  }
}

}  // namespace

void ReadyList::push(ReadyOrder ready) {
  DataPlane& plane = planes_[ready.device_type()];
  if (plane.ready++ == 0) plane.since = ready.at;
  if (ready.order.forced) any_forced_ = true;
  if (ready.entry != nullptr) ready.entry->in_ready_list = true;
  const bool moves_data = ready.moves_data();
  const bool is_the_hosts = negotiation::is_the_hosts(ready);
  orders_.push_back(std::move(ready));
  if (moves_data) return;
  if (is_the_hosts) {
    planes_[DeviceType::host].must_flush = true;
  } else {
    flush();
  }
}

void ReadyList::flush() {
  for (DataPlane& plane : planes_) plane.must_flush = plane.must_flush || plane.ready > 0;
}

bool ReadyList::defers_orders() const {
  return std::ranges::any_of(kDeviceTypes, [this](DeviceType type) { return defers_orders(type); });
}

TimePoint ReadyList::next_tick() const {
  TimePoint next = kNever;
  if (linger_limit_ <= Duration::zero()) return next;
  for (const DataPlane& plane : planes_) {
    if (plane.ready > 0) next = std::min(next, plane.since + linger_limit_);
  }
  return next;
}

bool ReadyList::waits(const DataPlane& plane, TimePoint now) const {
  const bool limit_over = linger_limit_ > Duration::zero() && now >= plane.since + linger_limit_;
  return plane.ready > 0 && plane.is_busy && !plane.must_flush && !limit_over;
}

void ReadyList::take(TimePoint now, std::vector<ReadyOrder>& going) {
  DeviceTypes waiting;
  for (const DeviceType type : kDeviceTypes) {
    if (waits(planes_[type], now)) {
      waiting.insert(type);
    } else {
      planes_[type].ready = 0;
      planes_[type].must_flush = false;
    }
  }
  if (waiting.empty()) {
    going.swap(orders_);
  } else {
    auto kept = orders_.begin();
    for (auto ready = orders_.begin(); ready != orders_.end(); ++ready) {
      if (!waiting.contains(ready->device_type())) {
        going.push_back(std::move(*ready));
        continue;
      }
      if (kept != ready) *kept = std::move(*ready);
      ++kept;
    }
    orders_.erase(kept, orders_.end());
  }
  if (!going.empty()) any_forced_ = false;  // an error never waits
  sort_by_priority(going);
}

bool ReadyList::is_being_failed(ProcessSetId set, const std::string& key) const {
  return any_forced_ && std::ranges::any_of(orders_, [&](const ReadyOrder& ready) {
           return ready.order.forced && ready.order.request->process_set == set &&
                  ready.order.request->name == key;
         });
}

void ReadyList::spell_out(wire::Slot slot) {
  for (ReadyOrder& ready : orders_) {
    if (ready.order.kind != wire::Order::Kind::run || ready.order.request || ready.order.slot != slot)
      continue;
    ready.order.request = ready.request;
    ready.order.slot = wire::kNoSlot;
  }
}

}  // namespace dabke::negotiation

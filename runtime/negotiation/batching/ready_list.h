// What the root has decided and not ordered yet.
//
//   1. While the data plane of a device type is busy, orders of that type wait, so that what becomes ready
//      meanwhile travels in the same batch (the adaptive linger); those of other types go.
//   2. What moves no data never waits. A barrier and a new process set count as the host's, and take along what
//      the host's data plane has before them. All else that moves no data (a join, an error, the end of a
//      process set or a rank) takes along whatever is ready, because it ends what the others still need.
// So the orders of one device type keep the order in which they became ready, but for their priorities.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/call/device_types.h"
#include "runtime/negotiation/tables/tensor_entry.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

struct ReadyOrder {
  wire::Order order;
  TensorEntry* entry = nullptr;  // a run's
  RequestRef request;            // also of a cached one
  TimePoint at{};

  bool moves_data() const { return order.kind == wire::Order::Kind::run && dabke::moves_data(request->kind); }
  DeviceType device_type() const { return moves_data() ? request->device_type : DeviceType::host; }
};

class ReadyList {
 public:
  /// `linger_limit`: the longest that an order waits; zero: as long as the data plane is busy.
  explicit ReadyList(Duration linger_limit) : linger_limit_(linger_limit) {}

  void push(ReadyOrder ready);
  /// What is ready now waits no longer.
  void flush();
  void set_busy(DeviceType type, bool busy) { planes_[type].is_busy = busy; }

  bool empty() const { return orders_.empty(); }
  /// Whether something that is ready waits for the data plane of this type.
  bool defers_orders(DeviceType type) const { return planes_[type].is_busy && planes_[type].ready > 0; }
  bool defers_orders() const;
  /// When take() has something to give at the latest.
  TimePoint next_tick() const;
  /// What need not wait, the more urgent first; `going` is empty.
  void take(TimePoint now, std::vector<ReadyOrder>& going);

  /// Whether the error of a name that not everybody had reported is among them.
  bool is_being_failed(ProcessSetId set, const std::string& key) const;
  /// The slot is being taken back: what is ready under it is ordered with the whole signature.
  void spell_out(wire::Slot slot);

 private:
  struct DataPlane {
    bool is_busy = false;
    bool must_flush = false;
    std::size_t ready = 0;  // orders of its type
    TimePoint since{};      // the first of these
  };
  bool waits(const DataPlane& plane, TimePoint now) const;

  Duration linger_limit_;
  ByDeviceType<DataPlane> planes_;
  std::vector<ReadyOrder> orders_;
  bool any_forced_ = false;  // a forced error is among them
};

}  // namespace dabke::negotiation

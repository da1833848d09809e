// The orders that the root has decided and not numbered yet.
//
//   1. While the data plane of a device type is busy, orders of that type wait. What becomes ready meanwhile
//      then travels in the same batch (the adaptive linger). Orders of other types go.
//   2. Orders that move no data never wait. A barrier and a new process set count as the host's, and take
//      along what the host's data plane has before them. All others (a join, an error, the end of a process
//      set or a rank) take along whatever is ready, because they end what the rest still needs.
// So the orders of one device type keep the order in which they became ready, except for their priorities.
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
  TensorEntry* entry = nullptr;  // of a run
  RequestRef request;            // also of a cached order
  TimePoint at{};

  bool moves_data() const { return order.kind == wire::Order::Kind::run && dabke::moves_data(request->kind); }
  DeviceType device_type() const { return moves_data() ? request->device_type : DeviceType::host; }
};

class ReadyList {
 public:
  /// `linger_limit` is the longest that an order waits; zero: as long as the data plane is busy.
  explicit ReadyList(Duration linger_limit) : linger_limit_(linger_limit) {}

  void push(ReadyOrder ready);
  /// Lets what is ready now wait no longer.
  void flush();
  void set_busy(DeviceType type, bool busy) { planes_[type].is_busy = busy; }

  bool empty() const { return orders_.empty(); }
  /// True if an order is ready and waits for the data plane of this type.
  bool defers_orders(DeviceType type) const { return planes_[type].is_busy && planes_[type].ready > 0; }
  bool defers_orders() const;
  /// The latest time at which take() has something to give.
  TimePoint next_tick() const;
  /// Moves the orders that need not wait into `going`, the more urgent first. `going` is empty.
  void take(TimePoint now, std::vector<ReadyOrder>& going);

  /// True if the list has the error of a name that not all ranks had reported.
  bool is_being_failed(ProcessSetId set, const std::string& key) const;
  /// Called when the slot is taken back: what is ready under it is ordered with the whole signature.
  void spell_out(wire::Slot slot);

 private:
  struct DataPlane {
    bool is_busy = false;
    bool must_flush = false;
    std::size_t ready = 0;  // orders of its type
    TimePoint since{};      // when the first of these became ready
  };
  bool waits(const DataPlane& plane, TimePoint now) const;

  Duration linger_limit_;
  ByDeviceType<DataPlane> planes_;
  std::vector<ReadyOrder> orders_;
  bool any_forced_ = false;  // a forced error is among them
};

}  // namespace dabke::negotiation

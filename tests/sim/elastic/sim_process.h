// A simulated process, and the gate that all of its events pass. A stopped process has its events later, in
// their order. A dead one has none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "runtime/bootstrap/elastic/arrival.h"

namespace dabke::test {

class EventGate {
 public:
  void run(std::function<void()> event) {
    if (is_closed_) return;
    if (is_stopped_ || is_waking_) {
      held_.push_back(std::move(event));
    } else {
      event();
    }
  }
  void stop() {
    is_stopped_ = true;
    ++stops_;
  }
  void wake() {
    is_stopped_ = false;
    is_waking_ = true;
    while (!held_.empty() && !is_stopped_) {
      const auto event = std::move(held_.front());
      held_.pop_front();
      event();
    }
    is_waking_ = false;
  }
  void close() {
    is_closed_ = true;
    held_.clear();
  }
  bool is_closed() const { return is_closed_; }
  bool is_stopped() const { return is_stopped_ && !is_closed_; }
  /// Counts the stops.
  std::uint64_t stops() const { return stops_; }

 private:
  bool is_closed_ = false, is_stopped_ = false, is_waking_ = false;
  std::uint64_t stops_ = 0;
  std::deque<std::function<void()>> held_;
};

struct SimProcess {
  bootstrap::WorkerId worker = 0;
  std::string host;
  std::uint64_t epoch = 0;  // whose plan it has read last; 0: none yet
  EventGate gate;
};

}  // namespace dabke::test

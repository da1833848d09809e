// The last few thousand events of this rank. They are always recorded, so a hang can be understood
// without reproducing it.
//
// Any thread writes into a ring, without locks and without allocating memory. A cell holds the number of
// its event, which is odd while the event is written. A reader that finds the number odd or changed drops
// that event. If the ring comes round to a cell that a slow writer still uses, the newer event is dropped.
// So no thread ever waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/kinds.h"
#include "runtime/base/world.h"

namespace dabke::diagnosis {

struct FlightEvent {
  enum class What : std::uint8_t {
    submitted,  // number: how many this rank has submitted, including this one
    ordered,    // number: the order's; so in the next three
    started,    // a batch; the name is its first tensor's
    finished,
    failed,
    note,   // the name is the text
    epoch,  // of an elastic job: it begins, and counts anew; number: the epoch's; the name: this rank's place
  };
  What what = What::note;
  CollectiveKind kind = CollectiveKind::allreduce;
  std::uint32_t tensors = 0;  // tensors of the group or batch
  ProcessSetId process_set = kWorldSet;
  std::uint64_t number = 0;
  std::uint64_t size_bytes = 0;
  TimePoint at{};
  std::string name;
};

class FlightRecorder {
 public:
  static constexpr std::size_t kEvents = 4096;

  /// Records an event. A name that is too long loses its middle.
  void record(FlightEvent::What what, CollectiveKind kind, ProcessSetId process_set, std::uint64_t number,
              std::size_t tensors, std::uint64_t size_bytes, std::string_view name,
              TimePoint at = Clock::now());
  void note(std::string_view text) {
    record(FlightEvent::What::note, CollectiveKind::barrier, kWorldSet, 0, 0, 0, text);
  }

  /// The events of the ring, the oldest first.
  std::vector<FlightEvent> events() const;
  /// The number of events that were ever recorded.
  std::uint64_t count() const { return next_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kNameBytes = 80;
  struct Packed {
    std::int64_t at_ns;
    std::uint64_t number;
    std::uint64_t size_bytes;
    std::int32_t process_set;
    std::uint32_t tensors;
    FlightEvent::What what;
    CollectiveKind kind;
    std::uint8_t name_length;
    std::array<char, kNameBytes> name;
  };
  static constexpr std::size_t kWords = 15;
  static_assert(sizeof(Packed) <= kWords * sizeof(std::uint64_t));
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> turn;
    std::array<std::atomic<std::uint64_t>, kWords> words;
  };

  std::unique_ptr<Cell[]> cells_ = std::make_unique<Cell[]>(kEvents);
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace dabke::diagnosis

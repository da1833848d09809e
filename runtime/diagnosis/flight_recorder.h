// The last few thousand events of this rank, always kept, so that a hang need not be reproduced to be
// understood.
//
// A ring that any thread writes without locks and without memory of its own. A cell carries the number of its
// event, made odd while it is written; a reader that finds it odd or changed drops that event. When the ring
// comes round while a slow writer still holds a cell, the newer event is dropped: nobody waits for anybody.
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
    submitted,  // number: how many this rank has submitted, with this one
    ordered,    // number: of the order, as in the next three
    started,    // a batch; the name is that of its first tensor
    finished,
    failed,
    note,  // the name is a text
  };
  What what = What::note;
  CollectiveKind kind = CollectiveKind::allreduce;
  std::uint32_t tensors = 0;  // those of a group or a batch
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
  /// How many there have ever been.
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

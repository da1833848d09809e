// A bounded queue of many producers and one consumer, without locks. A producer claims a position with one
// compare-and-swap, writes its cell and publishes it. A full queue refuses the value, so no thread ever
// waits.
//
// Each cell counts its turns: 2 * lap while it is free for the producer of that lap, 2 * lap + 1 while it is
// full.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace dabke::timeline {

template <class T>
class MpscQueue {
 public:
  /// The capacity is rounded up to a power of two, at least 16.
  explicit MpscQueue(std::size_t capacity)
      : capacity_(std::bit_ceil(std::max<std::size_t>(capacity, 16))),
        lap_shift_(std::countr_zero(capacity_)),
        cells_(std::make_unique<Cell[]>(capacity_)) {}

  std::size_t capacity() const { return capacity_; }

  /// Returns the position of the value, counted from 0 without end, or nothing if the queue is full. Any
  /// thread may call it.
  std::optional<std::uint64_t> push(T&& value) {
    std::uint64_t position = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cell_at(position);
      const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
      const std::uint64_t free_turn = turn_at(position);
      if (turn < free_turn) return std::nullopt;  // the value of the last lap is still in the cell
      if (turn > free_turn) {                     // another producer was faster
        position = tail_.load(std::memory_order_relaxed);
        continue;
      }
      // Sequentially consistent, because two threads write and then read. The producer claims a position and
      // then reads whether the consumer sleeps. The consumer notes that it sleeps and then calls empty(). At
      // least one of them must see the other's write.
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_seq_cst,
                                      std::memory_order_relaxed)) {
        cell.value = std::move(value);
        cell.turn.store(free_turn + 1, std::memory_order_release);
        return position;
      }
    }
  }

  /// The number of positions that were ever claimed. Any thread may call it.
  std::uint64_t claimed() const { return tail_.load(std::memory_order_relaxed); }

  /// Returns false if the queue is empty, or if the next position is claimed and not yet published. Only the
  /// consumer may call it.
  bool pop(T& value) {
    Cell& cell = cell_at(head_);
    const std::uint64_t full_turn = turn_at(head_) + 1;
    if (cell.turn.load(std::memory_order_acquire) != full_turn) return false;
    __builtin_prefetch(&cell_at(head_ + 4));  // the queue is larger than a cache
    value = std::move(cell.value);
    cell.turn.store(full_turn + 1, std::memory_order_release);
    ++head_;
    return true;
  }

  /// True if every claimed position was popped. Only the consumer may call it.
  bool empty() const { return tail_.load(std::memory_order_seq_cst) == head_; }

 private:
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> turn{0};
    T value{};
  };

  Cell& cell_at(std::uint64_t position) { return cells_[position & (capacity_ - 1)]; }
  std::uint64_t turn_at(std::uint64_t position) const { return 2 * (position >> lap_shift_); }

  const std::size_t capacity_;
  const int lap_shift_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // the next position to claim
  alignas(64) std::uint64_t head_ = 0;              // the next position to pop
};

}  // namespace dabke::timeline

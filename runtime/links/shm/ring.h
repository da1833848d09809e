// A stream of bytes from one process to another through shared memory: one writer, one reader, no lock.
//
//   1. The writer copies bytes in and then moves `written`; the reader copies them out and then moves `read`.
//      Both only grow; a position in the ring is the index modulo its size.
//   2. A side that wants to sleep first declares it (`reader_sleeps`, `writer_waits`) and then checks again.
//      A side that moves an index then checks whether the other has declared its sleep. All four accesses are
//      sequentially consistent, so at least one of the two sees the other, and no wake-up is lost. While both
//      are awake neither makes a system call.
//   3. `ended`: nothing will be written any more. `abandoned`: nothing will be read any more.
//
// Each side also keeps its own index in its own memory. It accepts the other's index only if that is
// possible, so a damaged ring is an error and not a wild copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"

namespace dabke::shm {

inline constexpr std::size_t kRingBytes = std::size_t{256} << 10;
static_assert((kRingBytes & (kRingBytes - 1)) == 0, "positions are taken modulo the size");

/// The layout of a ring in the segment. All zero is an empty ring.
struct RingMemory {
  alignas(64) std::atomic<std::uint64_t> written;
  std::atomic<std::uint32_t> ended;
  alignas(64) std::atomic<std::uint64_t> read;
  std::atomic<std::uint32_t> abandoned;
  alignas(64) std::atomic<std::uint32_t> reader_sleeps;
  alignas(64) std::atomic<std::uint32_t> writer_waits;
  alignas(64) std::byte bytes[kRingBytes];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "a lock of the library would lie in one process only");

class RingWriter {
 public:
  explicit RingWriter(RingMemory& ring) : ring_(ring) {}
  /// The number of free bytes. Fails if the reader's index is impossible.
  Result<std::size_t> room() const;
  /// Copies as much as fits, which the reader sees after show(). Returns the number of bytes.
  Result<std::size_t> write(std::span<const std::byte> bytes);
  /// Makes the written bytes visible to the reader.
  void show() { ring_.written.store(written_); }
  /// True if the reader sleeps while shown bytes are unread. May be called at once or later. A caller that
  /// gets true must wake the reader.
  bool reader_sleeps_on_it();
  /// Ends the stream. True if the reader sleeps and must be woken.
  bool end();
  bool abandoned() const { return ring_.abandoned.load(std::memory_order_acquire) != 0; }

  /// Asks for a wake-up when there is room. The caller then checks room() once more.
  void declare_waiting() { ring_.writer_waits.store(1); }
  /// Takes that back. True if the reader has taken it first, and so wakes us.
  bool was_woken() { return ring_.writer_waits.exchange(0) == 0; }

 private:
  RingMemory& ring_;
  std::uint64_t written_ = 0;
};

class RingReader {
 public:
  explicit RingReader(RingMemory& ring) : ring_(ring) {}
  /// True if read() or ended() has news. Never an error: a damaged ring is not empty.
  bool ready() const { return ring_.written.load() != read_ || ring_.ended.load() != 0; }
  bool empty() const { return ring_.written.load() == read_; }
  /// Copies out the bytes that are there and fit. Fails if the writer's index is impossible.
  Result<std::size_t> read(std::span<std::byte> into);
  /// Gives back the room of the bytes that were read. True if the writer waits for it and must be woken.
  bool publish();
  /// True if all that will ever be written has been read.
  bool ended() const { return ring_.ended.load() != 0 && empty(); }
  void abandon() { ring_.abandoned.store(1, std::memory_order_release); }

  void declare_sleeping() { ring_.reader_sleeps.store(1); }
  bool was_woken() { return ring_.reader_sleeps.exchange(0) == 0; }

 private:
  RingMemory& ring_;
  std::uint64_t read_ = 0;
};

}  // namespace dabke::shm

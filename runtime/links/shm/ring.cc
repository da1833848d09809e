#include "runtime/links/shm/ring.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace dabke::shm {
namespace {

constexpr std::size_t position(std::uint64_t index) { return static_cast<std::size_t>(index % kRingBytes); }

Status damaged(std::uint64_t written, std::uint64_t read) {
  return {Code::transport,
          fmt::format("a ring in shared memory is damaged: {} bytes written and {} read, of which at "
                      "most {} can be under way",
                      written, read, kRingBytes)};
}

/// True if the other side sleeps. Only one caller gets true for each sleep.
bool take(std::atomic<std::uint32_t>& declared) { return declared.load() != 0 && declared.exchange(0) != 0; }

}  // namespace

Result<std::size_t> RingWriter::room() const {
  const std::uint64_t read = ring_.read.load();
  const std::uint64_t under_way = written_ - read;
  if (under_way > kRingBytes) return damaged(written_, read);
  return kRingBytes - static_cast<std::size_t>(under_way);
}

Result<std::size_t> RingWriter::write(std::span<const std::byte> bytes) {
  DABKE_ASSIGN_OR_RETURN(const std::size_t free, room());
  const std::size_t count = std::min(free, bytes.size());
  if (count == 0) return count;
  const std::size_t at = position(written_);
  const std::size_t first = std::min(count, kRingBytes - at);
  std::memcpy(ring_.bytes + at, bytes.data(), first);
  std::memcpy(ring_.bytes, bytes.data() + first, count - first);
  written_ += count;
  return count;
}

bool RingWriter::reader_sleeps_on_it() {
  // The order matters: a reader that sleeps does not move `read` any more.
  return ring_.reader_sleeps.load() != 0 && ring_.read.load() != written_ && take(ring_.reader_sleeps);
}

bool RingWriter::end() {
  ring_.ended.store(1);
  return take(ring_.reader_sleeps);
}

Result<std::size_t> RingReader::read(std::span<std::byte> into) {
  const std::uint64_t written = ring_.written.load();
  const std::uint64_t there = written - read_;
  if (there > kRingBytes) return damaged(written, read_);
  const std::size_t count = std::min(static_cast<std::size_t>(there), into.size());
  if (count == 0) return count;
  const std::size_t at = position(read_);
  const std::size_t first = std::min(count, kRingBytes - at);
  std::memcpy(into.data(), ring_.bytes + at, first);
  std::memcpy(into.data() + first, ring_.bytes, count - first);
  read_ += count;
  return count;
}

bool RingReader::publish() {
  ring_.read.store(read_);
  return take(ring_.writer_waits);
}

}  // namespace dabke::shm

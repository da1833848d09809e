// A first-in, first-out queue of bytes in one block of memory that is reused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace dabke::links {

class ByteQueue {
 public:
  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  std::span<const std::byte> readable() const { return {data_.get() + begin_, size()}; }

  void consume(std::size_t count) {
    begin_ += count;
    if (begin_ < end_) return;
    begin_ = end_ = 0;
    if (capacity_ <= kKeep) return;
    data_.reset();  // one giant message must not hold its memory for the rest of the job
    capacity_ = 0;
  }

  /// Free space behind the last byte, at least `least` bytes. commit() takes the number of bytes that were
  /// filled.
  std::span<std::byte> writable(std::size_t least) {
    if (capacity_ - end_ < least) make_room(least);
    return {data_.get() + end_, capacity_ - end_};
  }
  void commit(std::size_t count) { end_ += count; }

  void append(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    std::memcpy(writable(bytes.size()).data(), bytes.data(), bytes.size());
    commit(bytes.size());
  }
  void clear() { consume(size()); }

 private:
  static constexpr std::size_t kKeep = 1 << 20;
  static constexpr std::size_t kFirst = 4096;

  void make_room(std::size_t least) {
    // A move costs no more than what was consumed since the last one, so each byte is moved O(1) times.
    if (begin_ >= size() && capacity_ - size() >= least) {
      std::memmove(data_.get(), data_.get() + begin_, size());
    } else {
      const std::size_t wanted = std::max({kFirst, 2 * capacity_, size() + least});
      auto larger = std::make_unique_for_overwrite<std::byte[]>(wanted);
      if (!empty()) std::memcpy(larger.get(), data_.get() + begin_, size());
      data_ = std::move(larger);
      capacity_ = wanted;
    }
    end_ -= begin_;
    begin_ = 0;
  }

  std::unique_ptr<std::byte[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace dabke::links

// Descriptors that a forked child must not keep: while a child holds a link open, peers cannot see that the
// rank died.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <utility>

namespace dabke {

/// A lock-free table of descriptors, which the atfork handler can walk whatever other threads were doing.
class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard() {
    for (Chunk* chunk = first_.next.load(); chunk != nullptr;)
      delete std::exchange(chunk, chunk->next.load());
  }

  /// May be called from any thread. A caller that closes the descriptor removes it first.
  void add(int fd) {
    for (Chunk* chunk = &first_;; chunk = next_of(chunk)) {
      for (auto& slot : chunk->slots) {
        int empty = -1;
        if (slot.load(std::memory_order_relaxed) == -1 && slot.compare_exchange_strong(empty, fd)) return;
      }
    }
  }
  void remove(int fd) {
    for (Chunk* chunk = &first_; chunk != nullptr; chunk = chunk->next.load()) {
      for (auto& slot : chunk->slots) {
        int expected = fd;
        if (slot.load(std::memory_order_relaxed) == fd && slot.compare_exchange_strong(expected, -1)) return;
      }
    }
  }
  /// Called in the child of a fork only. Async-signal-safe.
  void close_all_in_child() {
    for (Chunk* chunk = &first_; chunk != nullptr; chunk = chunk->next.load()) {
      for (auto& slot : chunk->slots) {
        if (const int fd = slot.exchange(-1); fd != -1) ::close(fd);
      }
    }
  }

 private:
  struct Chunk {
    Chunk() {
      for (auto& slot : slots) slot.store(-1, std::memory_order_relaxed);
    }
    std::array<std::atomic<int>, 256> slots;
    std::atomic<Chunk*> next{nullptr};
  };

  static Chunk* next_of(Chunk* chunk) {
    if (Chunk* next = chunk->next.load()) return next;
    auto fresh = std::make_unique<Chunk>();
    Chunk* expected = nullptr;
    return chunk->next.compare_exchange_strong(expected, fresh.get()) ? fresh.release() : expected;
  }

  Chunk first_;
};

}  // namespace dabke

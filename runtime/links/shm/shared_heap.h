// Memory of one process that other processes of the host can reach: the memory of dabke_alloc.
//
// All of it is in one file without a name (memfd), which grows and has holes where nothing is allocated. So
// there is one descriptor, however much is allocated. A peer maps one file, and a place in it means the same
// memory for ever: peers need no message when memory is freed and allocated again. The file never shrinks.
// Its pages are reserved before memory is returned, so a shortage is an error of allocate(), and never a
// SIGBUS later.
//
// A large allocation is a region of the file of its own; small ones share regions.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/links/shm/free_ranges.h"

namespace dabke::shm {

/// Thread-safe.
class SharedHeap {
 public:
  /// Keeps an allocation from being freed while an operation works on it. The heap must outlive it.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)), begin_(other.begin_) {}
    Use& operator=(Use other) noexcept {
      std::swap(heap_, other.heap_);
      std::swap(begin_, other.begin_);
      return *this;
    }
    ~Use() {
      if (heap_ != nullptr) heap_->release(begin_);
    }
    explicit operator bool() const { return heap_ != nullptr; }

   private:
    friend class SharedHeap;
    Use(SharedHeap* heap, std::uintptr_t begin) : heap_(heap), begin_(begin) {}
    SharedHeap* heap_ = nullptr;
    std::uintptr_t begin_ = 0;
  };

  SharedHeap() = default;
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;
  ~SharedHeap();

  /// Memory of at least `size_bytes` at a multiple of 64; from 64 KiB on at a multiple of the page size.
  /// Zeroed only if it was never in use before. Code out_of_memory if there is not enough.
  Result<void*> allocate(std::size_t size_bytes);
  /// Waits until no operation uses the memory. Code invalid_argument if allocate() did not return it, or if
  /// it was freed before.
  Status free(void* memory);

  /// A use of the allocation that contains `data`; empty if there is none.
  Use use(const void* data) { return extent() == 0 ? Use() : find_use(data); }
  /// The place of these bytes in the file; none if they are not all in one allocation.
  std::optional<std::size_t> place_of(const void* data, std::size_t size_bytes) const;

  /// The size of the file, which only grows. 0: nothing was ever allocated, and there is no file.
  std::size_t extent() const { return extent_.load(std::memory_order_acquire); }
  /// The descriptor to pass to other processes, once extent() is not 0.
  int descriptor() const { return fd_.get(); }

  /// Drops the file; called only in the atfork handler of a child. The memory stays, shared with the parent.
  /// Nothing else may be called after it.
  void close_in_child() { fork_guard_.close_all_in_child(); }

 private:
  /// A part of the file that is mapped in one piece.
  struct Region {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    bool is_shared = false;  // by small allocations
    std::size_t used = 0;
    FreeRanges free;  // of a shared region; counted from its begin
  };
  struct Allocation {
    std::size_t bytes = 0;
    std::size_t offset = 0;  // in the file
    std::size_t region = 0;  // the region's place in the file
    std::size_t uses = 0;
    bool is_freed = false;
  };
  using Allocations = std::map<std::uintptr_t, Allocation>;

  Result<Allocation> take_own(std::size_t bytes);
  Result<Allocation> take_shared(std::size_t bytes);
  void give_back(const Allocation& allocation);
  Result<std::size_t> open_region(std::size_t bytes);
  void close_region(std::size_t offset);
  Status open_file();
  Result<std::size_t> find_room(std::size_t bytes, std::size_t alignment);
  Use find_use(const void* data);
  Allocations::const_iterator find(std::uintptr_t address) const;
  void release(std::uintptr_t begin);

  // Guards the layout of the file. It is held during system calls, so it guards nothing that an operation
  // needs.
  std::mutex room_mutex_;
  ForkGuard fork_guard_;
  GuardedFd fd_;
  std::atomic<std::size_t> extent_{0};
  FreeRanges room_;
  std::map<std::size_t, Region> regions_;  // by their place in the file
  std::size_t small_bytes_ = 0;            // all shared regions together

  mutable std::mutex mutex_;
  std::condition_variable released_;
  Allocations allocations_;  // by address
};

}  // namespace dabke::shm

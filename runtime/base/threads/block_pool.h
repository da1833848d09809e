// Memory for objects that live from a call to its result, made on one thread and freed on another. The
// general allocator is slow at that: it merges blocks that other threads free, and splits them again.
#pragma once

#include <cstddef>
#include <mutex>
#include <new>

namespace dabke {

/// Keeps up to `kMost` free blocks for later calls. Never waits: a thread that finds the pool locked uses the
/// general allocator. In a forked child the pool may be locked for ever.
template <std::size_t kBytes>
class BlockPool {
 public:
  static void* take() {
    if (std::unique_lock lock(mutex_, std::try_to_lock); lock && first_ != nullptr) {
      Free* const block = first_;
      first_ = block->next;
      --count_;
      return block;
    }
    return ::operator new(kBlockBytes);
  }
  static void give(void* memory) noexcept {
    if (std::unique_lock lock(mutex_, std::try_to_lock); lock && count_ < kMost) {
      first_ = new (memory) Free{first_};
      ++count_;
      return;
    }
    ::operator delete(memory);
  }

 private:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr std::size_t kMost = 0;  // sanitizers must see every use after free
#else
  static constexpr std::size_t kMost = 1 << 17;  // a step with as many names as the cache holds by default
#endif
  struct Free {
    Free* next;
  };
  static constexpr std::size_t kBlockBytes = kBytes < sizeof(Free) ? sizeof(Free) : kBytes;

  inline static constinit std::mutex mutex_;
  inline static constinit Free* first_ = nullptr;
  inline static constinit std::size_t count_ = 0;
};

/// A base that gives `new T` its memory from the pool. T must be final.
template <class T>
struct Pooled {
  static void* operator new(std::size_t) { return BlockPool<sizeof(T)>::take(); }
  static void operator delete(void* memory) noexcept { BlockPool<sizeof(T)>::give(memory); }
};

/// An allocator for std::allocate_shared.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(n == 1 ? BlockPool<sizeof(T)>::take() : ::operator new(n * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t n) noexcept {
    n == 1 ? BlockPool<sizeof(T)>::give(memory) : ::operator delete(memory);
  }
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};

}  // namespace dabke

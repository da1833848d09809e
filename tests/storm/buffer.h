// Memory of a tensor, between two fences that nobody may touch.
#pragma once

#include <cstddef>
#include <memory>

namespace storm {

class Buffer {
 public:
  Buffer() = default;
  /// `offset`: bytes more than a multiple of 64. `is_registered`: of dabke_alloc.
  Buffer(std::size_t size_bytes, std::size_t offset, bool is_registered);

  std::byte* data() const { return memory_ == nullptr ? nullptr : memory_.get() + begin_; }
  bool is_whole() const;

 private:
  struct Free {
    bool is_registered;
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> memory_{nullptr, Free{false}};
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace storm

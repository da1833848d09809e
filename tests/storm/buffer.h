// Memory of a tensor, on the host or on a fake device, between two fences that nothing may overwrite.
#pragma once

#include <cstddef>
#include <memory>

namespace storm {

class Buffer {
 public:
  Buffer() = default;
  enum class Home { heap, registered /* of dabke_alloc */, device };

  /// `offset`: bytes beyond a multiple of 64. `device`: the device, if `home` is one.
  Buffer(std::size_t size_bytes, std::size_t offset, Home home, int device);

  std::byte* data() const { return memory_ == nullptr ? nullptr : memory_.get() + begin_; }
  bool is_whole() const;

 private:
  struct Free {
    Home home;
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> memory_{nullptr, Free{Home::heap}};
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace storm

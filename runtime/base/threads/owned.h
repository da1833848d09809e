// The owner of a handle, such as a descriptor, a communicator or an event.
#pragma once

#include <unistd.h>

#include <utility>

namespace dabke {

template <class Traits>
class Owned {
 public:
  using Raw = typename Traits::Raw;
  Owned() = default;
  explicit Owned(Raw raw) : raw_(raw) {}
  Owned(Owned&& other) noexcept : raw_(std::exchange(other.raw_, Traits::none())) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Owned() {
    if (raw_ != Traits::none()) Traits::close(raw_);
  }
  Raw get() const { return raw_; }
  Raw release() { return std::exchange(raw_, Traits::none()); }
  explicit operator bool() const { return raw_ != Traits::none(); }

 private:
  Raw raw_ = Traits::none();
};

struct FdTraits {
  using Raw = int;
  static constexpr int none() { return -1; }
  static void close(int fd) { ::close(fd); }
};
/// A file descriptor. The code that makes one sets CLOEXEC.
using Fd = Owned<FdTraits>;

}  // namespace dabke

// A program's own use of a fake device: streams, the work on them, events. This header uses nothing
// of Dabke, so tests of the public API can include it.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/facts.h"

namespace fake_cuda {

/// Returns a function of fake_cuda.h.
template <class Signature>
Signature* function(const char* name) {
  void* const library = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<Signature*>(::dlsym(library, name));
}

class Stream {
 public:
  explicit Stream(int device) : Stream(function<void*(int)>("fake_cuda_open_stream")(device), nullptr) {}
  /// The stream that the number 1 (legacy) or 2 (of the calling thread) means on the device.
  static Stream numbered(std::uintptr_t number, int device) {
    void* const own = function<void*(std::uintptr_t, int)>("fake_cuda_default_stream")(number, device);
    return {own, reinterpret_cast<void*>(number)};
  }

  /// The handle as the program passes it.
  void* handle() const { return number_ != nullptr ? number_ : own_; }
  void enqueue(std::function<void()> run) const {
    const auto call = [](void* argument) {
      const std::unique_ptr<std::function<void()>> what(static_cast<std::function<void()>*>(argument));
      (*what)();
    };
    function<void(void*, void (*)(void*), void*)>("fake_cuda_enqueue")(
        own_, call, new std::function<void()>(std::move(run)));
  }
  void synchronize() const { function<void(void*)>("fake_cuda_synchronize")(own_); }
  std::shared_ptr<void> record() const {
    return {function<void*(void*)>("fake_cuda_record")(own_), function<int(void*)>("cuEventDestroy_v2")};
  }

 private:
  Stream(void* own, void* number) : own_(own), number_(number) {}

  void* own_;
  void* number_;
};

/// The calling thread captures the stream while this lives.
class Capture {
 public:
  explicit Capture(const Stream& stream) : stream_(stream.handle()) { set(true); }
  ~Capture() { set(false); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  void set(bool begins) { function<void(void*, bool)>("fake_cuda_capture")(stream_, begins); }

  void* const stream_;
};

/// Holds streams up until it is opened, or destroyed.
class Gate {
 public:
  ~Gate() { open(); }
  void hold(const Stream& stream) const {
    stream.enqueue([is_open = is_open_] { is_open.wait(); });
  }
  void open() {
    if (!std::exchange(was_opened_, true)) opener_.set_value();
  }

 private:
  std::promise<void> opener_;
  const std::shared_future<void> is_open_ = opener_.get_future().share();
  bool was_opened_ = false;
};

}  // namespace fake_cuda

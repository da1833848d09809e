// What a program does itself with a device of the double: streams, what it enqueues there, events. Of nothing of
// Dabke's, so that tests of the public API can have it.
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

/// A function of fake_cuda.h.
template <class Signature>
Signature* function(const char* name) {
  void* const library = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<Signature*>(::dlsym(library, name));
}

class Stream {
 public:
  explicit Stream(int device) : Stream(function<void*(int)>("fake_cuda_open_stream")(device), nullptr) {}
  /// That which the numbers 1 (legacy) and 2 (of the calling thread) stand for on the device.
  static Stream numbered(std::uintptr_t number, int device) {
    void* const own = function<void*(std::uintptr_t, int)>("fake_cuda_default_stream")(number, device);
    return {own, reinterpret_cast<void*>(number)};
  }

  /// As the program passes it on.
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

/// The calling thread captures what comes onto a stream, while this lives.
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

/// Holds streams up until it is opened, at the latest as it goes.
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

// Gloo's device: the thread that moves data for all contexts of this process.
//
// The thread of a device wakes a hundred times a second even when nothing moves. It used 2.3 ms of processor
// time a second when measured, and 0.004 ms when parked. Dropping the contexts is not a remedy, because the
// other ranks would still use theirs. A context may be dropped only at an agreed point in the order sequence,
// and idleness is not such a point. So an idle device is parked: a handler that we register blocks its thread
// until the next run. No data is lost meanwhile: data that peers send waits in the sockets.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include <gloo/transport/tcp/device.h>

#include "ops/gloo/device_thread.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/links/network.h"

namespace dabke::ops {

class GlooDevice {
 public:
  /// Opens a device whose sockets have this address.
  static Result<std::unique_ptr<GlooDevice>> open(const links::SocketAddress& address, ForkGuard& fork_guard);
  /// Every context that was made with the device must be gone.
  ~GlooDevice();

  const std::shared_ptr<gloo::transport::Device>& gloo() const { return device_; }

  const DeviceThread& thread() const { return brake_.thread; }

  /// Stops the thread when it has finished its current work; resume() starts it again. Both may be called
  /// twice.
  void park();
  void resume();
  /// Returns when the thread has passed once more or is parked: its earlier work is then over. Also returns
  /// after five seconds without either. Must not be called on that thread.
  void await_thread() { brake_.await_visit(); }

 private:
  class Brake final : public gloo::transport::tcp::Handler {
   public:
    explicit Brake(int fd) : fd_(fd) {}
    void handleEvents(int events) override;  // called on Gloo's thread
    void pull();
    void release();
    void await_visit();

    DeviceThread thread;

   private:
    void wake();

    const int fd_;
    std::mutex mutex_;
    std::condition_variable released_, visited_;
    std::uint64_t visits_ = 0;
    bool pulled_ = false;
    bool stands_ = false;  // the thread is inside handleEvents()
  };

  GlooDevice(std::shared_ptr<gloo::transport::Device> device, GuardedFd brake_fd, ForkGuard& fork_guard);
  gloo::transport::tcp::Device& tcp() const { return static_cast<gloo::transport::tcp::Device&>(*device_); }
  void guard_epoll();

  ForkGuard& fork_guard_;
  GuardedFd brake_fd_;  // an eventfd that wakes Gloo's thread
  Brake brake_;
  std::shared_ptr<gloo::transport::Device> device_;
  int epoll_fd_ = -1;  // Gloo's
};

}  // namespace dabke::ops

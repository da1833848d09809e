// Gloo's device: the thread that moves data for all contexts of this process.
//
// A device's thread wakes a hundred times a second even when nothing moves: 2.3 ms of processor time a second
// were measured, and 0.004 ms when parked. Contexts cannot be dropped to end that, because the other ranks
// would go on using theirs: dropping one is only right at a point in the order sequence, and idleness is not
// one. So an idle device is parked: a handler that we register blocks its thread until the next run. Nothing
// is lost meanwhile, since whatever peers send waits in the sockets.
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
  /// Its sockets will have this address.
  static Result<std::unique_ptr<GlooDevice>> open(const links::SocketAddress& address, ForkGuard& fork_guard);
  /// Every context that was made with it must be gone.
  ~GlooDevice();

  const std::shared_ptr<gloo::transport::Device>& gloo() const { return device_; }

  const DeviceThread& thread() const { return brake_.thread; }

  /// Stops the thread when it has dealt with what it is doing; resume() starts it again. Both may be called
  /// twice.
  void park();
  void resume();
  /// Returns when the thread has come by once more, or stands parked: what it did before is over. After five
  /// seconds without, too. Not to be called on that thread.
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
    bool stands_ = false;  // the thread is here
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

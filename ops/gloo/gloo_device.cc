#include "ops/gloo/gloo_device.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <string>
#include <system_error>

#include "ops/gloo/gloo_threads.h"
#include "runtime/base/threads/floating_point.h"

namespace dabke::ops {
namespace {

/// The thread passes within microseconds, unless the whole machine stands still.
constexpr std::chrono::seconds kLongestPass{5};

/// True if `fd` is an epoll set that watches `watched`.
bool is_epoll_watching(int fd, int watched) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", fd));
  for (std::string word; info >> word;) {
    if (int target = -1; word == "tfd:" && info >> target && target == watched) return true;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<GlooDevice>> GlooDevice::open(const links::SocketAddress& address,
                                                     ForkGuard& fork_guard) {
  GuardedFd brake_fd(Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), fork_guard);
  if (!brake_fd) return system_error("eventfd", errno);
  const std::string text = address.to_string();
  gloo::transport::tcp::attr attributes;
  attributes.hostname = text.substr(0, text.rfind(':'));
  if (attributes.hostname.front() == '[')
    attributes.hostname = attributes.hostname.substr(1, attributes.hostname.size() - 2);
  attributes.ai_family = address.family();
  try {
    const AllSignalsBlocked blocked;  // the device's thread inherits both
    const DefaultFloatingPoint floats;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    return std::unique_ptr<GlooDevice>(new GlooDevice(std::move(device), std::move(brake_fd), fork_guard));
  } catch (const std::system_error& error) {  // from std::thread; Gloo throws its own types
    return cannot_start_thread("of Gloo", error);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "Gloo ran out of memory");
  } catch (const std::exception& error) {
    return Status(Code::transport,
                  fmt::format("Gloo cannot use address {}: {}", attributes.hostname, error.what()));
  }
}

GlooDevice::GlooDevice(std::shared_ptr<gloo::transport::Device> device, GuardedFd brake_fd,
                       ForkGuard& fork_guard)
    : fork_guard_(fork_guard),
      brake_fd_(std::move(brake_fd)),
      brake_(brake_fd_.get()),
      device_(std::move(device)) {
  tcp().registerDescriptor(brake_fd_.get(), EPOLLIN, &brake_);
  guard_epoll();
  // Makes the thread pass through the brake once, which stores its id.
  park();
  resume();
}

GlooDevice::~GlooDevice() {
  resume();  // unregistering waits for the thread
  tcp().unregisterDescriptor(brake_fd_.get(), &brake_);
  if (epoll_fd_ != -1) fork_guard_.remove(epoll_fd_);
}

/// Finds Gloo's epoll set, which Gloo makes without CLOEXEC and does not show: it is the one that watches our
/// eventfd.
void GlooDevice::guard_epoll() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), ::closedir);
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || !is_epoll_watching(fd, brake_fd_.get())) continue;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    fork_guard_.add(fd);
    epoll_fd_ = fd;
    return;
  }
}

void GlooDevice::park() { brake_.pull(); }
void GlooDevice::resume() { brake_.release(); }

void GlooDevice::Brake::handleEvents(int) {
  thread.introduce();
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);  // the event must not fire again
  std::unique_lock lock(mutex_);
  ++visits_;
  stands_ = true;
  visited_.notify_all();
  released_.wait(lock, [&] { return !pulled_; });
  stands_ = false;
}

void GlooDevice::Brake::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put =
      ::write(fd_, &one, sizeof one);  // the eventfd is far from full, so the write succeeds
}

void GlooDevice::Brake::pull() {
  {
    const std::lock_guard lock(mutex_);
    if (pulled_) return;
    pulled_ = true;
  }
  wake();
}

void GlooDevice::Brake::await_visit() {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = visits_;
  wake();
  visited_.wait_for(lock, kLongestPass, [&] { return visits_ != before || stands_; });
}

void GlooDevice::Brake::release() {
  {
    const std::lock_guard lock(mutex_);
    pulled_ = false;
  }
  released_.notify_all();
}

}  // namespace dabke::ops

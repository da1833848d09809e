// Memory that processes of one host share. It has no name, so it is gone once the last process that holds it
// has ended, however that ended.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/base/threads/owned.h"

namespace dabke::shm {

/// Code out_of_memory if a file of `size_bytes` is above the limit of this process (RLIMIT_FSIZE). Growing a
/// file to that size would send SIGXFSZ, which ends the process, instead of returning an error.
Status check_file_size_limit(std::size_t size_bytes);
/// Allocates the pages of this part of a memfd. Code out_of_memory if there are not enough.
Status reserve_pages(int fd, std::size_t offset, std::size_t size_bytes);

/// Every page exists before the first is touched, and no process can take one away. So a shortage is an error
/// of create(), never a SIGBUS in the middle of a collective.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept
      : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, std::span<std::byte>())) {}
  Segment& operator=(Segment&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Segment();

  /// Zeroed memory of `size_bytes`. `name` is shown in /proc. Code out_of_memory if there is not enough.
  /// `guard` must outlive the segment.
  static Result<Segment> create(const char* name, std::size_t size_bytes, ForkGuard& guard);
  /// The same, without its pages. Each part must be reserve()d before it is touched, and is then in the
  /// memory nearest to the thread that reserves it.
  static Result<Segment> create_empty(const char* name, std::size_t size_bytes, ForkGuard& guard);
  /// Maps a segment that another process made with create_empty() and passed.
  static Result<Segment> adopt_empty(Fd fd, std::size_t size_bytes, ForkGuard& guard);
  /// Code out_of_memory if there is not enough. Called while descriptor() is open.
  Status reserve(std::size_t offset, std::size_t size_bytes);
  /// Maps a segment that another process made and passed. Code mismatch if its size is not `size_bytes`, if
  /// it could still shrink, or if it has pages that do not exist yet.
  static Result<Segment> adopt(Fd fd, std::size_t size_bytes, ForkGuard& guard);

  std::span<std::byte> bytes() const { return bytes_; }
  /// The descriptor to pass to another process; -1 once it is closed. The memory stays.
  int descriptor() const { return fd_.get(); }
  void close_descriptor() { fd_.reset(); }

 private:
  static Result<Segment> map(Fd fd, std::size_t size_bytes, ForkGuard& guard);

  GuardedFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace dabke::shm

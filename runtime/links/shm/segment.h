// Memory that processes of one host share. It has no name anywhere: when the last process that holds it ends,
// however it ends, the memory is gone.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/base/threads/owned.h"

namespace dabke::shm {

/// Code out_of_memory where a file of `size_bytes` is above the limit of this process (RLIMIT_FSIZE): growing
/// one to there returns no error but sends SIGXFSZ, which ends the process.
Status check_file_size_limit(std::size_t size_bytes);
/// Makes the pages of this part of a memfd be there. Code out_of_memory when there are not enough.
Status reserve_pages(int fd, std::size_t offset, std::size_t size_bytes);

/// Every page is there before the first is touched, and nobody can take one away: a shortage is an error of
/// create(), never a SIGBUS in the middle of a collective.
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

  /// Zeroed memory of `size_bytes`. `name` is for whoever looks into /proc. Code out_of_memory when there is
  /// not enough. `guard` must outlive the segment.
  static Result<Segment> create(const char* name, std::size_t size_bytes, ForkGuard& guard);
  /// The same, of pages that are not there yet: each part must be reserve()d before it is touched, so that it
  /// lies in the memory nearest to whoever reserves it.
  static Result<Segment> create_empty(const char* name, std::size_t size_bytes, ForkGuard& guard);
  /// Maps what another process made with create_empty() and passed.
  static Result<Segment> adopt_empty(Fd fd, std::size_t size_bytes, ForkGuard& guard);
  /// Code out_of_memory when there is not enough. While descriptor() is open.
  Status reserve(std::size_t offset, std::size_t size_bytes);
  /// Maps what another process made and passed. Code mismatch when it is not of `size_bytes`, could still
  /// shrink, or has pages that are not there yet.
  static Result<Segment> adopt(Fd fd, std::size_t size_bytes, ForkGuard& guard);

  std::span<std::byte> bytes() const { return bytes_; }
  /// The descriptor to pass to another process; -1 once it was closed. The memory stays.
  int descriptor() const { return fd_.get(); }
  void close_descriptor() { fd_.reset(); }

 private:
  static Result<Segment> map(Fd fd, std::size_t size_bytes, ForkGuard& guard);

  GuardedFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace dabke::shm

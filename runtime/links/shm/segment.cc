#include "runtime/links/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

namespace dabke::shm {

Status check_file_size_limit(std::size_t size_bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      size_bytes <= limit.rlim_cur)
    return {};
  return {Code::out_of_memory, fmt::format("cannot create {} bytes of shared memory: files of this process "
                                           "are limited to {} bytes; raise the limit (ulimit -f)",
                                           size_bytes, limit.rlim_cur)};
}

Status reserve_pages(int fd, std::size_t offset, std::size_t size_bytes) {
  while (::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(size_bytes)) != 0) {
    if (errno == EINTR) continue;
    return {Code::out_of_memory,
            fmt::format("{} (of {} bytes; memory of the host or container is short)",
                        system_error("cannot reserve shared memory", errno).message(), size_bytes)};
  }
  return {};
}

Segment::~Segment() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<Segment> Segment::create(const char* name, std::size_t size_bytes, ForkGuard& guard) {
  DABKE_ASSIGN_OR_RETURN(Segment segment, create_empty(name, size_bytes, guard));
  DABKE_RETURN_IF_ERROR(segment.reserve(0, size_bytes));
  return segment;
}

Result<Segment> Segment::create_empty(const char* name, std::size_t size_bytes, ForkGuard& guard) {
  if (size_bytes == 0) return Status(Code::invalid_argument, "a segment of 0 bytes cannot be mapped");
  DABKE_RETURN_IF_ERROR(check_file_size_limit(size_bytes));
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error("memfd_create", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) return system_error("ftruncate", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("fcntl(F_ADD_SEALS)", errno);
  return map(std::move(fd), size_bytes, guard);
}

Status Segment::reserve(std::size_t offset, std::size_t size_bytes) {
  return reserve_pages(fd_.get(), offset, size_bytes);
}

Result<Segment> Segment::adopt_empty(Fd fd, std::size_t size_bytes, ForkGuard& guard) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error("fstat of a shared segment", errno);
  if (size_bytes == 0 || !S_ISREG(info.st_mode) || static_cast<std::size_t>(info.st_size) != size_bytes) {
    return Status(Code::mismatch, fmt::format("expected a shared segment of {} bytes, got one of {}",
                                              size_bytes, info.st_size));
  }
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status(Code::mismatch, "a shared segment was passed that can still shrink");
  return map(std::move(fd), size_bytes, guard);
}

Result<Segment> Segment::adopt(Fd fd, std::size_t size_bytes, ForkGuard& guard) {
  DABKE_ASSIGN_OR_RETURN(Segment segment, adopt_empty(std::move(fd), size_bytes, guard));
  struct stat info {};
  if (::fstat(segment.descriptor(), &info) != 0) return system_error("fstat of a shared segment", errno);
  // st_blocks is in units of 512 bytes on every file system.
  if (static_cast<std::size_t>(info.st_blocks) * 512 < size_bytes)
    return Status(Code::mismatch, "a shared segment was passed whose memory is not reserved");
  return segment;
}

Result<Segment> Segment::map(Fd fd, std::size_t size_bytes, ForkGuard& guard) {
  void* const address = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    return Status(Code::out_of_memory,
                  fmt::format("{} (of {} bytes)", system_error("cannot map shared memory", errno).message(),
                              size_bytes));
  }
  Segment segment;
  segment.bytes_ = {static_cast<std::byte*>(address), size_bytes};
  segment.fd_ = GuardedFd(std::move(fd), guard);
  return segment;
}

}  // namespace dabke::shm

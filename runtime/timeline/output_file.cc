#include "runtime/timeline/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace dabke::timeline {

namespace {

/// O_NONBLOCK, because opening a pipe that nobody reads would wait for ever.
constexpr int kFlags = O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

/// Checks whether `path`, which was opened as `fd` or failed with `error`, can be written at any offset.
Status check_opened(const std::string& path, const Fd& fd, int error) {
  if (!fd) {
    const Status cause = system_error(fmt::format("cannot write the timeline to '{}'", path), error);
    return Status(cause.code(),
                  cause.message() + "; choose a file in a directory that exists and is writable");
  }
  if (::lseek(fd.get(), 0, SEEK_CUR) == -1) {
    return Status(
        Code::invalid_argument,
        fmt::format(
            "cannot write the timeline to '{}': it is a pipe, a socket or a terminal; choose a regular file",
            path));
  }
  return {};
}

}  // namespace

Result<OutputFile> OutputFile::open(std::string path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_TRUNC | kFlags, 0666));
  if (!fd && errno == EACCES) fd = Fd(::open(path.c_str(), O_WRONLY | O_TRUNC | kFlags, 0666));
  DABKE_RETURN_IF_ERROR(check_opened(path, fd, errno));
  return OutputFile(std::move(path), std::move(fd));
}

Status OutputFile::check(const std::string& path) {
  const Fd made(::open(path.c_str(), O_WRONLY | O_EXCL | kFlags, 0666));
  if (made) {
    (void)::unlink(path.c_str());
    return {};
  }
  const Fd fd(::open(path.c_str(), O_WRONLY | kFlags, 0666));
  return check_opened(path, fd, errno);
}

Status OutputFile::write_at(std::uint64_t offset, std::string_view bytes, Written& written) const {
  while (written.bytes < bytes.size()) {
    const std::uint64_t at = offset + written.bytes;
    const ssize_t step = ::pwrite(fd_.get(), bytes.data() + written.bytes, bytes.size() - written.bytes,
                                  static_cast<off_t>(at));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) {
      written.error = step < 0 ? errno : ENOSPC;
      return system_error(fmt::format("writing the timeline '{}' failed at byte {}", path_, at),
                          written.error);
    }
    written.bytes += static_cast<std::size_t>(step);
  }
  return Status::ok();
}

bool OutputFile::read_back(std::uint64_t bytes, const std::function<void(std::string_view)>& take) const {
  std::string piece(std::size_t{256} << 10, '\0');
  for (std::uint64_t at = 0; at < bytes;) {
    const std::size_t most = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - at));
    const ssize_t step = ::pread(fd_.get(), piece.data(), most, static_cast<off_t>(at));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) return false;
    take(std::string_view(piece).substr(0, static_cast<std::size_t>(step)));
    at += static_cast<std::uint64_t>(step);
  }
  return true;
}

bool OutputFile::cut_at(std::uint64_t size) const {
  return ::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0;
}

Status OutputFile::close() {
  // Some file systems report a full disk only now.
  if (!fd_ || ::close(fd_.release()) == 0) return {};
  return system_error(fmt::format("writing the timeline '{}' failed at its end", path_), errno);
}

}  // namespace dabke::timeline

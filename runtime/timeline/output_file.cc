#include "runtime/timeline/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace dabke {

Result<OutputFile> OutputFile::open(std::string path) {
  // Not blocking: opening a pipe that nobody reads would wait for ever.
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
  if (!fd) {
    const Status cause = system_error(fmt::format("cannot write the timeline to '{}'", path), errno);
    return Status(cause.code(),
                  cause.message() + "; name a file in a directory that exists and may be written");
  }
  if (::lseek(fd.get(), 0, SEEK_CUR) == -1) {
    return Status(
        Code::invalid_argument,
        fmt::format("cannot write the timeline to '{}': it is a pipe, a socket or a terminal; name a "
                    "regular file",
                    path));
  }
  return OutputFile(std::move(path), std::move(fd));
}

Status OutputFile::write_at(std::uint64_t offset, std::string_view bytes, std::size_t& written) const {
  while (written < bytes.size()) {
    const std::uint64_t at = offset + written;
    const ssize_t step =
        ::pwrite(fd_.get(), bytes.data() + written, bytes.size() - written, static_cast<off_t>(at));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) {
      return system_error(fmt::format("writing the timeline '{}' failed at byte {}", path_, at),
                          step < 0 ? errno : ENOSPC);
    }
    written += static_cast<std::size_t>(step);
  }
  return Status::ok();
}

bool OutputFile::cut_at(std::uint64_t size) const {
  return ::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0;
}

Status OutputFile::close() {
  // Some file systems tell only now that there was no room.
  if (!fd_ || ::close(fd_.release()) == 0) return {};
  return system_error(fmt::format("writing the timeline '{}' failed at its end", path_), errno);
}

}  // namespace dabke

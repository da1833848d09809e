#include "runtime/timeline/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace dabke {
namespace {

constexpr std::size_t kLarge = 256 << 10;
constexpr std::string_view kClosing = "\n]\n";

}  // namespace

Result<TraceFile> TraceFile::open(std::string path) {
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
  return TraceFile(std::move(path), std::move(fd));
}

fmt::appender TraceFile::next_event() {
  events_.append(std::string_view(any_event_ ? ",\n" : "[\n"));
  any_event_ = true;
  return fmt::appender(events_);
}

void TraceFile::flush_if_large() {
  if (events_.size() >= kLarge) flush();
}

void TraceFile::flush() {
  const std::size_t size = events_.size();
  if (size != 0 && error_.is_ok()) {
    events_.append(kClosing);
    if (Status status = write_at(end_, events_.data(), events_.size()); status.is_ok()) {
      end_ += size;
    } else {
      give_up(std::move(status));
    }
  }
  events_.clear();
}

Status TraceFile::close() {
  flush();
  if (!fd_) return error_;
  // Some file systems tell only now that there was no room.
  if (::close(fd_.release()) != 0 && error_.is_ok()) {
    error_ = system_error(fmt::format("writing the timeline '{}' failed at its end", path_), errno);
  }
  return error_;
}

Status TraceFile::write_at(std::uint64_t offset, const char* data, std::size_t size) const {
  while (size > 0) {
    const ssize_t written = ::pwrite(fd_.get(), data, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return system_error(fmt::format("writing the timeline '{}' failed at byte {}", path_, offset),
                          written < 0 ? errno : ENOSPC);
    }
    offset += static_cast<std::uint64_t>(written);
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return Status::ok();
}

void TraceFile::give_up(Status cause) {
  error_ = std::move(cause);
  // Cut what was half written, so that the file is whole up to the flush before; where that fails too, there
  // is nothing left to do, and the first error is the one to report.
  if (end_ > 0 && ::ftruncate(fd_.get(), static_cast<off_t>(end_)) == 0) {
    static_cast<void>(write_at(end_, kClosing.data(), kClosing.size()).is_ok());
  }
}

}  // namespace dabke

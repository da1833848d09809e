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

fmt::memory_buffer& TraceFile::next_event() {
  events_.append(std::string_view(any_event_ ? ",\n" : "[\n"));
  any_event_ = true;
  return events_;
}

void TraceFile::flush_if_large() {
  if (events_.size() >= kLarge) flush();
}

void TraceFile::flush() {
  const std::size_t size = events_.size();
  if (size != 0 && error_.is_ok()) {
    events_.append(kClosing);
    std::size_t written = 0;
    error_ = write_at(end_, {events_.data(), events_.size()}, written);
    if (error_.is_ok()) {
      end_ += size;
    } else {
      keep_whole_events(written);
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

Status TraceFile::write_at(std::uint64_t offset, std::string_view text, std::size_t& written) const {
  while (written < text.size()) {
    const std::uint64_t at = offset + written;
    const ssize_t step =
        ::pwrite(fd_.get(), text.data() + written, text.size() - written, static_cast<off_t>(at));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) {
      return system_error(fmt::format("writing the timeline '{}' failed at byte {}", path_, at),
                          step < 0 ? errno : ENOSPC);
    }
    written += static_cast<std::size_t>(step);
  }
  return Status::ok();
}

void TraceFile::keep_whole_events(std::size_t written) {
  // A newline stands only between events, since JSON escapes
  // those in strings. The bracket must fit where there was room.
  std::size_t keep = 0;
  if (written > kClosing.size()) {
    const std::size_t separator = std::string_view(events_.data(), written - kClosing.size()).rfind(",\n");
    if (separator != std::string_view::npos) keep = separator;
  }
  end_ += keep;
  // Where this fails too, there is nothing left to do, and the first error is the one to report.
  if (::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0 || end_ == 0) return;
  std::size_t closing_written = 0;
  (void)write_at(end_, kClosing, closing_written);
}

}  // namespace dabke

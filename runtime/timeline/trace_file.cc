#include "runtime/timeline/trace_file.h"

#include <string_view>
#include <utility>

namespace dabke {
namespace {

constexpr std::size_t kLarge = 256 << 10;
constexpr std::string_view kClosing = "\n]\n";

}  // namespace

Result<TraceFile> TraceFile::open(std::string path) {
  DABKE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(std::move(path)));
  return TraceFile(std::move(file));
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
    error_ = file_.write_at(end_, {events_.data(), events_.size()}, written);
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
  if (Status closed = file_.close(); error_.is_ok()) error_ = std::move(closed);
  return error_;
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
  if (!file_.cut_at(end_) || end_ == 0) return;
  std::size_t closing_written = 0;
  (void)file_.write_at(end_, kClosing, closing_written);
}

}  // namespace dabke

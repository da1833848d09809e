#include "runtime/timeline/trace_file.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/timeline/open_events.h"

namespace dabke::timeline {
namespace {

constexpr std::size_t kLarge = 256 << 10;
constexpr std::string_view kClosing = "\n]\n";
/// The size of the longest end of an open event, with its separator and arguments.
constexpr std::uint64_t kLongestEnd = 96;

}  // namespace

Result<TraceFile> TraceFile::open(std::string path, std::uint64_t limit) {
  DABKE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(std::move(path)));
  return TraceFile(std::move(file), limit);
}

fmt::memory_buffer& TraceFile::next_event() {
  events_.append(std::string_view(any_event_ ? ",\n" : "[\n"));
  any_event_ = true;
  return events_;
}

bool TraceFile::keep(std::uint64_t open) {
  const std::uint64_t rest = open * kLongestEnd + kLongestLastEvent + kClosing.size();
  if (is_full_ || limit_ == 0 || events_.size() == kept_ || end_ + events_.size() + rest <= limit_) {
    kept_ = events_.size();
    return true;
  }
  is_full_ = true;
  events_.resize(kept_);
  any_event_ = end_ != 0 || kept_ != 0;
  flush();
  if (error_.is_ok()) events_.append(ends_of(end_));
  flush();
  return false;
}

void TraceFile::flush_if_large() {
  if (events_.size() >= kLarge && (limit_ == 0 || events_.size() == kept_)) flush();
}

void TraceFile::flush() {
  const std::size_t size = events_.size();
  if (size != 0 && error_.is_ok()) {
    events_.append(kClosing);
    OutputFile::Written written;
    error_ = file_.write_at(end_, {events_.data(), events_.size()}, written);
    if (error_.is_ok()) {
      end_ += size;
    } else {
      keep_whole_events(written.bytes);
    }
  }
  events_.clear();
  kept_ = 0;
}

Status TraceFile::close() {
  flush();
  if (Status closed = file_.close(); error_.is_ok()) error_ = std::move(closed);
  return error_;
}

void TraceFile::keep_whole_events(std::size_t written) {
  // Bytes that are overwritten need no new room on a full disk. That also holds for the bracket of the last
  // flush.
  const std::uint64_t room = end_ + std::max<std::uint64_t>(written, end_ == 0 ? 0 : kClosing.size());
  OpenEvents seen;
  std::uint64_t keep = 0;
  const bool is_read = read_events(room, [&](std::string_view event, std::uint64_t end) {
    seen.add(event);
    if (end + seen.ends_size() + kClosing.size() <= room) keep = end;
  });
  if (is_read) end_ = keep;
  std::string last(end_ == 0 ? "[" : "");
  if (is_read) last += ends_of(keep);
  last += kClosing;
  // If this write fails too, nothing is left to do, and the first error is the one to report.
  OutputFile::Written ignored;
  (void)file_.write_at(end_, last, ignored);
  (void)file_.cut_at(end_ + ignored.bytes);
}

std::string TraceFile::ends_of(std::uint64_t bytes) const {
  OpenEvents open;
  // The separator behind the last event marks its end, so it is read too.
  (void)read_events(bytes + 2, [&](std::string_view event, std::uint64_t end) {
    if (end <= bytes) open.add(event);
  });
  return open.ends();
}

/// A newline stands only between events, since JSON escapes newlines in texts.
bool TraceFile::read_events(
    std::uint64_t bytes, const std::function<void(std::string_view event, std::uint64_t end)>& take) const {
  std::string line;
  std::uint64_t at = 0;  // offset of the line's first byte
  return file_.read_back(bytes, [&](std::string_view piece) {
    for (std::size_t newline = 0; (newline = piece.find('\n')) != piece.npos;) {
      line += piece.substr(0, newline);
      piece.remove_prefix(newline + 1);
      const std::string_view event =
          std::string_view(line).substr(0, line.size() - (line.ends_with(',') ? 1 : 0));
      if (event.starts_with('{')) take(event, at + event.size());
      at += line.size() + 1;
      line.clear();
    }
    line += piece;
  });
}

}  // namespace dabke::timeline

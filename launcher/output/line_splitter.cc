#include "launcher/output/line_splitter.h"

#include <utility>

namespace dabke::launcher {

void LineSplitter::push(std::string_view bytes, const Sink& sink) {
  if (bytes.empty()) return;
  if (holds_carriage_return()) {
    if (bytes.front() == '\n') {
      held_ += '\n';
      bytes.remove_prefix(1);
    }
    release(sink);
  }
  while (!bytes.empty()) {
    const auto end = bytes.find_first_of("\r\n");
    if (end == std::string_view::npos) break;
    const bool is_crlf = bytes[end] == '\r' && end + 1 < bytes.size() && bytes[end + 1] == '\n';
    if (bytes[end] == '\r' && end + 1 == bytes.size()) break;  // the next byte decides
    const std::string_view line = bytes.substr(0, end + (is_crlf ? 2 : 1));
    bytes.remove_prefix(line.size());
    if (held_.size() + line.size() > longest_) {
      held_.append(line);
      emit_long(sink);
      release(sink);
    } else if (held_.empty()) {
      emit(line, sink);
    } else {
      held_.append(line);
      release(sink);
    }
  }
  held_.append(bytes);
  if (held_.size() > longest_) emit_long(sink);
}

void LineSplitter::emit(std::string_view line, const Sink& sink) {
  sink(line, std::exchange(shown_, 0));
  is_redrawing_ = line.ends_with('\r');
}

/// Emits full pieces from the front until at most `longest_` bytes and the terminator are left.
void LineSplitter::emit_long(const Sink& sink) {
  const std::size_t terminator = held_.ends_with("\r\n")                          ? 2
                                 : held_.ends_with('\n') || held_.ends_with('\r') ? 1
                                                                                  : 0;
  std::size_t at = 0;
  while (held_.size() - terminator - at > longest_) {
    emit(held_.substr(at, longest_) + (ends_ == Ends::completed ? "\n" : ""), sink);
    at += longest_;
  }
  held_.erase(0, at);
}

void LineSplitter::release(const Sink& sink) {
  if (held_.empty()) return;
  const std::string line = std::move(held_);
  held_.clear();
  emit(line, sink);
}

void LineSplitter::show(const Sink& sink) {
  sink(held_, shown_);
  shown_ = held_.size();
}

void LineSplitter::finish(const Sink& sink) {
  if (ends_ == Ends::completed && !held_.empty() && !holds_carriage_return()) held_ += '\n';
  release(sink);
}

}  // namespace dabke::launcher

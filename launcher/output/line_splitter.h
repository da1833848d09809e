// Cuts one output stream of a rank into lines. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace dabke::launcher {

/// A line ends with \n, \r\n, or only \r, as progress bars write it. Bytes are passed on unchanged, with the
/// terminator. A line longer than `longest` comes in pieces.
class LineSplitter {
 public:
  /// `completed` adds a missing newline to a piece of a line, and to a last line.
  enum class Ends { as_they_are, completed };
  /// show() has already shown the first `shown` bytes of `line`.
  using Sink = std::function<void(std::string_view line, std::size_t shown)>;

  explicit LineSplitter(Ends ends, std::size_t longest = std::size_t{1} << 20)
      : ends_(ends), longest_(longest) {}

  void push(std::string_view bytes, const Sink& sink);
  /// Called when the stream has ended.
  void finish(const Sink& sink);

  /// True if the bytes so far end with \r, and a \n may follow. The caller calls release() if none comes
  /// soon.
  bool holds_carriage_return() const { return held_.ends_with('\r'); }
  void release(const Sink& sink);

  /// True if an unfinished line has bytes that have not been shown.
  bool holds_unshown() const { return held_.size() > shown_; }
  /// Passes the unfinished line to `sink`, and keeps it: the sink gets the whole line once it ends.
  void show(const Sink& sink);
  /// True if the last line ended with only \r, so that the current one takes its place on a terminal.
  bool is_redrawing() const { return is_redrawing_; }

 private:
  void emit(std::string_view line, const Sink& sink);
  void emit_long(const Sink& sink);

  const Ends ends_;
  const std::size_t longest_;
  std::string held_;  // the incomplete line; only its last byte may be a \r
  std::size_t shown_ = 0;
  bool is_redrawing_ = false;
};

}  // namespace dabke::launcher

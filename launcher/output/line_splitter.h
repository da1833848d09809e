// Cuts one output stream of a rank into lines. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace dabke::launcher {

/// A line ends with \n, \r\n, or \r alone, as progress bars write it. Bytes are passed on as they are, terminator included.
/// A line longer than `longest` comes in pieces.
class LineSplitter {
 public:
  /// Whether a piece of a line, and a last line, get a newline that was not there.
  enum class Ends { as_they_are, completed };
  /// The first `shown` bytes of `line` have been shown by show().
  using Sink = std::function<void(std::string_view line, std::size_t shown)>;

  explicit LineSplitter(Ends ends, std::size_t longest = std::size_t{1} << 20)
      : ends_(ends), longest_(longest) {}

  void push(std::string_view bytes, const Sink& sink);
  /// The stream has ended.
  void finish(const Sink& sink);

  /// The bytes so far end with \r, and a \n may follow; release() when none comes soon.
  bool holds_carriage_return() const { return held_.ends_with('\r'); }
  void release(const Sink& sink);

  /// There are bytes of an unfinished line that have not been shown.
  bool holds_unshown() const { return held_.size() > shown_; }
  /// Gives the unfinished line to `sink`, and keeps it: its sink gets it again as a whole once it ends.
  void show(const Sink& sink);
  /// The last line ended with \r alone, so the one that has begun since takes its place on a terminal.
  bool is_redrawing() const { return is_redrawing_; }

 private:
  void emit(std::string_view line, const Sink& sink);
  void emit_long(const Sink& sink);

  const Ends ends_;
  const std::size_t longest_;
  std::string held_;  // the line that is not complete; its last byte may be a \r, no other
  std::size_t shown_ = 0;
  bool is_redrawing_ = false;
};

}  // namespace dabke::launcher

// Cuts one output stream of a rank into lines. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace dabke {

/// A line ends with \n, \r\n, or \r alone, as progress bars write it. Bytes are passed on as they are,
/// terminator included; only a line longer than `longest` gets a newline that was not there, and so does a
/// last line without one.
class LineSplitter {
 public:
  using Sink = std::function<void(std::string_view line)>;

  explicit LineSplitter(std::size_t longest = std::size_t{1} << 20) : longest_(longest) {}

  void push(std::string_view bytes, const Sink& sink);
  /// The stream has ended.
  void finish(const Sink& sink);

  /// The bytes so far end with \r, and a \n may follow; release() when none comes soon.
  bool holds_carriage_return() const { return held_.ends_with('\r'); }
  void release(const Sink& sink);

 private:
  void emit_long(const Sink& sink);

  const std::size_t longest_;
  std::string held_;  // the line that is not complete; its last byte may be a \r, no other
};

}  // namespace dabke

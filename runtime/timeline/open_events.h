// Finds the events of a trace that have begun and not ended, from the events that TraceWriter writes. A trace
// that is cut in the middle must contain their ends to be valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dabke::timeline {

class OpenEvents {
 public:
  /// Takes the text of the next event, without its separator.
  void add(std::string_view event);
  /// The ends of all open events, at the time of the latest event. A separator precedes each of them.
  std::string ends() const;
  /// The size of ends(), in bytes.
  std::size_t ends_size() const;

 private:
  std::map<std::string, std::size_t, std::less<>> open_;  // number of open events by pid
  std::size_t count_ = 0;                                 // number of open events of all pids
  std::size_t pid_bytes_ = 0;                             // characters of the pids in all ends
  std::string last_us_ = "0.000";
};

}  // namespace dabke::timeline

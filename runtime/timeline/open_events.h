// Which events of a trace have begun and not ended, event by event as TraceWriter writes them: a trace that is cut in the
// middle needs their ends to be whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dabke::timeline {

class OpenEvents {
 public:
  /// The text of the next event, without what separates it from others.
  void add(std::string_view event);
  /// The ends of all that is open, at the last moment that an event has, each behind a separator.
  std::string ends() const;
  /// How many bytes ends() has.
  std::size_t ends_size() const;

 private:
  std::map<std::string, std::size_t, std::less<>> open_;  // how many, by pid
  std::size_t count_ = 0;                                 // of all pids
  std::size_t pid_bytes_ = 0;                             // of the ends of all
  std::string last_us_ = "0.000";
};

}  // namespace dabke::timeline

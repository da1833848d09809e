// Reads the events of a Chrome trace of any length, one by one. The form is {"traceEvents": [...], ...} or
// [...], plain or compressed by gzip. Files of tools that were killed, or that do not escape names, are read
// as far as possible. A broken event is counted and left out, and reading goes on with the next valid one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/timeline/event_names.h"

namespace dabke::viewer {

struct EventValue {
  std::string text;  // empty for numbers
  double number = 0;
  bool is_number = false;
};

struct TraceEvent {
  char phase = 0;
  std::string name, category;
  std::string process, thread;  // pid and tid as text
  std::optional<double> start_us, duration_us;
  std::vector<std::pair<std::string, EventValue>> arguments;

  /// Returns null if there is none.
  const EventValue* argument(std::string_view name) const;
  std::string_view text(std::string_view argument) const;
  std::optional<double> number(std::string_view argument) const;

  /// The same for arguments that Dabke writes.
  const EventValue* argument(timeline::Argument which) const { return argument(timeline::name_of(which)); }
  std::string_view text(timeline::Argument which) const { return text(timeline::name_of(which)); }
  std::optional<double> number(timeline::Argument which) const { return number(timeline::name_of(which)); }
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void event(const TraceEvent& event) = 0;
  /// Takes another member of the outermost object, with its value as JSON.
  virtual void member(std::string_view key, std::string_view json) = 0;
};

struct TraceDamage {
  bool is_cut = false;  // the file ends before its array
  std::uint64_t broken = 0;
  std::uint64_t first_broken_at = 0;  // offset in bytes
  std::uint64_t events = 0;           // valid events

  /// Returns a sentence for each kind of damage.
  std::vector<std::string> notes(const std::string& path) const;
};

/// `on_progress` gets the number of bytes of the file that have been read.
///   errors  a file that cannot be read or is not a trace; the error names the file
Result<TraceDamage> read_events(const std::string& path, EventSink& sink,
                                const std::function<void(std::uint64_t bytes)>& on_progress = {});

}  // namespace dabke::viewer

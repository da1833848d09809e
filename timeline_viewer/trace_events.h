// Reads the events of a Chrome trace, of whatever length, one after the other: {"traceEvents": [...], ...} or [...], plain or
// compressed by gzip. Files of tools that were killed, or that do not escape names, are read as far as they can be: what is
// broken is counted and left out, and reading goes on with the next event that is whole.
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
  std::string text;  // empty of numbers
  double number = 0;
  bool is_number = false;
};

struct TraceEvent {
  char phase = 0;
  std::string name, category;
  std::string process, thread;  // pid and tid, as they are written
  std::optional<double> start_us, duration_us;
  std::vector<std::pair<std::string, EventValue>> arguments;

  /// Null where there is none.
  const EventValue* argument(std::string_view name) const;
  std::string_view text(std::string_view argument) const;
  std::optional<double> number(std::string_view argument) const;

  /// Of those that Dabke writes.
  const EventValue* argument(timeline::Argument which) const { return argument(timeline::name_of(which)); }
  std::string_view text(timeline::Argument which) const { return text(timeline::name_of(which)); }
  std::optional<double> number(timeline::Argument which) const { return number(timeline::name_of(which)); }
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void event(const TraceEvent& event) = 0;
  /// Another member of the outermost object, with its value as JSON.
  virtual void member(std::string_view key, std::string_view json) = 0;
};

struct TraceDamage {
  bool is_cut = false;  // it ends before its array does
  std::uint64_t broken = 0;
  std::uint64_t first_broken_at = 0;  // byte
  std::uint64_t events = 0;           // that were whole

  /// A sentence each.
  std::vector<std::string> notes(const std::string& path) const;
};

/// `on_progress` is told how many bytes of the file have been read.
///   errors  what cannot be read, or is no trace at all, by the file's name
Result<TraceDamage> read_events(const std::string& path, EventSink& sink,
                                const std::function<void(std::uint64_t bytes)>& on_progress = {});

}  // namespace dabke::viewer

// Writes the events of a Chrome trace as text, one after the other. It does not depend on their
// meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "runtime/timeline/event_arguments.h"
#include "runtime/timeline/joining/intervals.h"
#include "runtime/timeline/joining/merged_file.h"

namespace dabke::timeline {

class MergedEvents {
 public:
  using RowId = std::uint32_t;

  /// Writes the beginning of the trace. `base_time_ns` is the time of day at the trace's zero, in nanoseconds
  /// since 1970. Its member has the name that PyTorch's profiler uses.
  MergedEvents(MergedFile& file, std::int64_t base_time_ns);

  /// `quoted_name` is JSON.
  void whole(int pid, RowId row, std::string_view quoted_name, const Interval& when,
             const EventArguments& args = {});
  /// `scope` is t for the row and p for the process.
  void instant(int pid, RowId row, char scope, std::string_view name, std::int64_t at_ns,
               const EventArguments& args = {});
  void counter(int pid, Event counter, std::int64_t at_ns, std::uint64_t value);
  void metadata(int pid, std::optional<RowId> row, Event event, const EventArguments& args);

  struct ArrowEnd {
    int pid = 0;
    RowId row = 0;
    std::int64_t at_ns = 0;
  };
  void arrow(std::string_view category, Event event, const ArrowEnd& from, const ArrowEnd& to);

  /// Ends the trace with the member `otherData`, which is JSON. The caller finishes the file.
  void finish(std::string_view other_data);

 private:
  fmt::memory_buffer& next_event();

  MergedFile& file_;
  fmt::memory_buffer text_;
  bool any_event_ = false;
  std::uint64_t arrows_ = 0;
};

}  // namespace dabke::timeline

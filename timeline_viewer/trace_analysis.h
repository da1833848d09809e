// Reads the traces of Dabke, of Horovod and of PyTorch's profiler for an analysis.
//
//   Dabke's merged trace   processes are ranks; batches follow each other, each with the parts of its ranks
//   Horovod's timeline     processes are tensors; rank 0 records its own work, and when it learned that each
//                          rank was ready
//   PyTorch's profiler     one file a rank; names of kernels and operations show which communicate
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/timeline/report/analysis.h"
#include "timeline_viewer/job_profiles.h"
#include "timeline_viewer/trace_events.h"

namespace dabke::viewer {

/// Gives numbers to the names of a trace, for code that needs them by number.
class TraceNames {
 public:
  std::uint32_t number_of(std::string_view name);
  /// Returns "" for 0.
  std::string_view name(std::uint32_t number) const { return names_[number]; }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_{{"", 0}};
  std::vector<std::string> names_{""};
};

/// Reads the traces of one tool. It gets all events of a file, and takes those that it recognises.
class TraceDialect : public EventSink {
 public:
  void member(std::string_view, std::string_view) override {}
  /// Reports events that have no end.
  virtual void finish() {}
};

std::unique_ptr<TraceDialect> merged_trace_dialect(timeline::Analysis& analysis, TraceNames& names,
                                                   DabkeTrace& trace);
std::unique_ptr<TraceDialect> horovod_dialect(timeline::Analysis& analysis, TraceNames& names);
std::unique_ptr<TraceDialect> profiler_dialect(Profile& profile);

/// Returns the collective for a name as timelines write it, such as "ALLREDUCE".
std::optional<CollectiveKind> kind_of(std::string_view timeline_name);

/// Converts microseconds since the trace's zero to nanoseconds.
std::int64_t ns_of(double us);

/// Returns the report of one trace, or of several traces of one job: one for each rank, or a trace of Dabke
/// with profiles of its ranks.
///   errors  a file that cannot be read or is not a trace; a trace with a rank of an earlier trace; profiles
///           that cannot be joined with Dabke's trace
Result<timeline::TraceReport> report_of_traces(
    const std::vector<std::string>& paths, const std::function<void(std::uint64_t bytes)>& on_progress = {});

/// Returns the same, or one report for each trace if the traces are of different jobs or tools.
///   errors  a file that cannot be read or is not a trace
Result<std::vector<timeline::TraceReport>> reports_of_traces(
    const std::vector<std::string>& paths, const std::function<void(std::uint64_t bytes)>& on_progress = {});

}  // namespace dabke::viewer

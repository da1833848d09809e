// What the traces of Dabke, of Horovod and of PyTorch's profiler say, for an analysis.
//
//   Dabke's merged trace   processes are ranks; batches are told one after the other, each with the parts of its ranks
//   Horovod's timeline     processes are tensors; rank 0 tells when it heard that each rank was ready, and what it did itself
//   PyTorch's profiler     one file a rank; kernels and operations whose names say that they communicate
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
#include "timeline_viewer/trace_events.h"

namespace dabke::viewer {

/// Numbers for the names of a trace, for whoever wants them by number.
class TraceNames {
 public:
  std::uint32_t number_of(std::string_view name);
  /// "" of 0.
  std::string_view name(std::uint32_t number) const { return names_[number]; }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_{{"", 0}};
  std::vector<std::string> names_{""};
};

/// One tool's way of telling. It takes the events that it knows, of a file from its beginning to its end.
class TraceDialect : public EventSink {
 public:
  void member(std::string_view, std::string_view) override {}
  /// Tells what has no end.
  virtual void finish() {}
};

std::unique_ptr<TraceDialect> merged_trace_dialect(timeline::Analysis& analysis, TraceNames& names);
std::unique_ptr<TraceDialect> horovod_dialect(timeline::Analysis& analysis, TraceNames& names);
/// `file`: how many were before it; the rank where the file does not say it.
std::unique_ptr<TraceDialect> profiler_dialect(timeline::Analysis& analysis, std::size_t file);

/// "ALLREDUCE", as timelines write it.
std::optional<CollectiveKind> kind_of(std::string_view timeline_name);

/// Nanoseconds, from the trace's own zero on.
std::int64_t ns_of(double us);

/// A report of one trace, or of several of one job, one for each rank.
///   errors  what cannot be read, or is no trace; a trace that has a rank which one before it has: they are of different jobs
Result<timeline::TraceReport> report_of_traces(
    const std::vector<std::string>& paths, const std::function<void(std::uint64_t bytes)>& on_progress = {});

/// The same, but of traces of different jobs one report for each of them.
///   errors  what cannot be read, or is no trace
Result<std::vector<timeline::TraceReport>> reports_of_traces(
    const std::vector<std::string>& paths, const std::function<void(std::uint64_t bytes)>& on_progress = {});

}  // namespace dabke::viewer

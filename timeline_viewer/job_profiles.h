// Joins traces of PyTorch's profiler with the trace that Dabke has made of the same job.
//
//  1. Both have the time of day at their zero. So the times of a profile are converted to those of Dabke's
//     trace, by the clock of the host of the profile's rank.
//  2. The batches, late ranks and waits are those of Dabke's trace. The computation is that of the profiles.
//  3. The steps are the marked ones of Dabke's trace, else those of the profiles.
//  4. The figures of steps are limited to the time that all profiles cover.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/timeline/report/analysis.h"

namespace dabke::viewer {

/// A trace of PyTorch's profiler. The times count from its first event.
struct Profile {
  struct Call {
    std::string name;
    std::string thread;
    timeline::Interval when;
    std::uint64_t bytes = 0;
    bool has_end = true;
  };
  std::string path;
  std::optional<int> rank, size;            // of `distributedInfo`
  std::optional<std::int64_t> day_time_ns;  // the time of day at the first event, since 1970
  timeline::Interval covered;
  std::vector<Call> calls;
  timeline::Intervals computing;
  std::vector<std::pair<std::uint64_t, timeline::Interval>> steps;

  bool is_empty() const { return calls.empty() && computing.empty(); }
};

/// The facts about Dabke's trace that are not in the analysis.
struct DabkeTrace {
  std::string path;
  std::optional<int> size;                  // of the job
  bool is_elastic = false;                  // then the size changes
  std::optional<std::int64_t> day_time_ns;  // at the trace's zero; nothing in an older trace
  std::map<int, std::int64_t>
      rank_day_times_ns;  // the same by the hosts of the ranks; empty if it was cut off
};

/// Returns the error of a trace that has a rank of an earlier trace.
Status rank_is_common(const std::string& path, int rank);

/// Gives a rank to each profile that names none: the number after "rank" in its file's name, else the number
/// of profiles before it. Aligns the profiles with the first of them if each has the time of day.
void prepare_profiles(std::vector<Profile>& profiles);

/// Adds the profiles alone, as a job without batches.
///   errors  two profiles of one rank
Status add_profiles(timeline::Analysis& analysis, const std::vector<Profile>& profiles);

/// Adds the computation of the profiles to the batches of Dabke's trace.
///   errors  a trace without the time of day; a profile of another job, of another time, or of a rank that
///           the trace or another profile does not allow. The error names the file.
Status join_profiles(timeline::Analysis& analysis, const DabkeTrace& trace,
                     const std::vector<Profile>& profiles);

}  // namespace dabke::viewer

// The files of records that the ranks of one job have left.
//
// Files of several jobs may lie side by side, such as those of an earlier job with more ranks. Only files of
// one job and epoch are joined. Every other file is named in a note or an error. If a rank was killed, a note
// reports that the end of its records is missing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/timeline/joining/clock_alignment.h"
#include "runtime/timeline/joining/record_file.h"

namespace dabke::timeline {

/// The facts from a first pass through a rank's file.
struct RankFile {
  std::string path;
  RecordFile::Origin origin;
  std::vector<ClockSample> clock;
  std::set<ProcessSetId> sets;  // sets in which the rank has run a tensor
  // By the rank's own clock. Without records, both are the time at which the file was opened.
  std::int64_t first_ns = 0, last_ns = 0;
  std::uint64_t records = 0;
  std::uint64_t lost = 0;      // records that found the queue full
  std::uint64_t limit = 0;     // see EndCounts
  std::uint64_t left_out = 0;  // records that had no room within the limit
  std::string missing;         // RecordFile::missing()
};

/// Called from time to time with the bytes that were read since the last call. If it returns false, reading
/// ends with Code::interrupted. It may be empty.
using OnProgress = std::function<bool(std::uint64_t bytes)>;

class JobFiles {
 public:
  /// Finds the files `base`.rank0, .rank1 and so on. They are those of `job`, or without `job` those of the
  /// job that was opened last. It is an error if there are none, or if one of them is damaged. Files of other
  /// jobs are left out: see notes().
  static Result<JobFiles> find(const std::string& base, std::optional<JobId> job = {},
                               const OnProgress& on_progress = {});
  /// Opens these files. A file of another job and a second file of a rank are errors.
  static Result<JobFiles> open(const std::vector<std::string>& paths, const OnProgress& on_progress = {});

  /// The files by rank; at least one.
  const std::vector<RankFile>& ranks() const { return ranks_; }
  /// The clocks of ranks(), in the same order.
  const std::vector<AlignedClock>& clocks() const { return clocks_; }
  int size() const { return ranks_.front().origin.size; }
  /// The time of the first record, by the one clock.
  std::int64_t begin_ns() const { return begin_ns_; }
  /// The number of ranks() that have run a tensor in the set.
  std::size_t members(ProcessSetId set) const;
  std::uint64_t bytes() const { return bytes_; }

  /// One sentence for each thing that is missing or was left out.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Status look_through(const std::string& path, const OnProgress& on_progress);
  void finish();

  std::vector<RankFile> ranks_;
  std::vector<AlignedClock> clocks_;
  std::map<ProcessSetId, std::size_t> members_;
  std::int64_t begin_ns_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::string> notes_;
};

/// Reports that a block of records was read.
Status report_progress(const OnProgress& on_progress, std::size_t records);

/// The job's id in hexadecimal digits, such as "1f3c...", as dabkerun --verbose prints it.
std::string text_of(const JobId& job);

}  // namespace dabke::timeline

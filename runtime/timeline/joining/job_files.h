// The files of records that the ranks of one job have left.
//
// A path may hold files of several jobs: of an earlier one with more ranks, or of somebody else. Files of one job and epoch
// alone are joined; every other one is refused by its name. Of a rank that was killed the tail is missing, which is said.
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

/// What a first look through a rank's file has found.
struct RankFile {
  std::string path;
  RecordFile::Origin origin;
  std::vector<ClockSample> clock;
  std::set<ProcessSetId> sets;             // of which it has run something
  std::int64_t first_ns = 0, last_ns = 0;  // by the rank's own clock; of no record: as the file was opened
  std::uint64_t records = 0;
  std::uint64_t lost = 0;      // that found the queue full
  std::uint64_t limit = 0;     // see EndCounts
  std::uint64_t left_out = 0;  // records that had no room within it
  std::string missing;         // what RecordFile::missing() says
};

/// Called now and then with how many bytes have been read since the last call; false ends the reading with
/// Code::interrupted. Empty: nobody wants to know.
using OnProgress = std::function<bool(std::uint64_t bytes)>;

class JobFiles {
 public:
  /// `base`.rank0, .rank1 and so on, of job `job`, or else of that which was opened last. An error where there is none, and
  /// where one of the job is damaged. Those of other jobs are left out, see notes().
  static Result<JobFiles> find(const std::string& base, std::optional<JobId> job = {},
                               const OnProgress& on_progress = {});
  /// These. A file of another job, and a second one of a rank, are errors.
  static Result<JobFiles> open(const std::vector<std::string>& paths, const OnProgress& on_progress = {});

  /// By rank; at least one.
  const std::vector<RankFile>& ranks() const { return ranks_; }
  /// Of ranks(), in their order.
  const std::vector<AlignedClock>& clocks() const { return clocks_; }
  int size() const { return ranks_.front().origin.size; }
  /// The first moment that was recorded, by the one clock.
  std::int64_t begin_ns() const { return begin_ns_; }
  /// How many of ranks() have run something in the set.
  std::size_t members(ProcessSetId set) const;
  std::uint64_t bytes() const { return bytes_; }

  /// What is missing or was left out: a sentence each.
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

/// Tells of a block of records.
Status report_progress(const OnProgress& on_progress, std::size_t records);

/// "1f3c...", as dabkerun --verbose prints it.
std::string text_of(const JobId& job);

}  // namespace dabke::timeline

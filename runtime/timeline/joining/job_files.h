// The files of records that the ranks of one job have left.
//
// Files of several jobs may lie side by side, such as those of an earlier job with more ranks. Only files of
// one job and epoch are joined. In an elastic job, all epochs of the job are joined, and a rank has a file in
// each epoch that it was in. Every other file is named in a note or an error. If a rank was killed, a note
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
#include "runtime/timeline/joining/epoch_changes.h"
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
  EpochMoments moments;  // by the rank's own clock
  std::uint64_t records = 0;
  std::uint64_t lost = 0;      // records that found the queue full
  std::uint64_t limit = 0;     // see EndCounts
  std::uint64_t left_out = 0;  // records that had no room within the limit
  std::string missing;         // RecordFile::missing()
};

/// An epoch of the job. A job that is not elastic has one.
struct JobEpoch {
  std::uint64_t number = 1;
  int size = 1;
  std::size_t first = 0, count = 0;             // its files in JobFiles::ranks()
  std::map<ProcessSetId, std::size_t> members;  // the number of its ranks that have run a tensor in the set
};

/// Called from time to time with the bytes that were read since the last call. If it returns false, reading
/// ends with Code::interrupted. It may be empty.
using OnProgress = std::function<bool(std::uint64_t bytes)>;

class JobFiles {
 public:
  /// Finds the files `base`.rank0, .rank1 and so on, and those of later epochs. They are those of `job`, or
  /// without `job` those of the job that was opened last. It is an error if there are none, or if one of them
  /// is damaged. Files of other jobs are left out: see notes().
  static Result<JobFiles> find(const std::string& base, std::optional<JobId> job = {},
                               const OnProgress& on_progress = {});
  /// Opens these files. A file of another job and a second file of a rank in an epoch are errors.
  static Result<JobFiles> open(const std::vector<std::string>& paths, const OnProgress& on_progress = {});

  /// The files by epoch and rank; at least one.
  const std::vector<RankFile>& ranks() const { return ranks_; }
  /// The clocks of ranks(), in the same order.
  const std::vector<AlignedClock>& clocks() const { return clocks_; }
  /// The epochs that have left a file, in their order.
  const std::vector<JobEpoch>& epochs() const { return epochs_; }
  /// The index in epochs() of a file of ranks().
  std::size_t epoch_of(std::size_t file) const { return epoch_of_[file]; }
  bool is_elastic() const { return ranks_.front().origin.roster.has_value(); }
  /// The changes between the epochs of an elastic job.
  const std::vector<EpochChange>& changes() const { return changes_; }
  /// The number of files that all ranks of all epochs should have left.
  int size() const;
  /// The time of the first record, by the one clock.
  std::int64_t begin_ns() const { return begin_ns_; }
  /// The time of day at begin_ns() by the host of a file of ranks(), in nanoseconds since 1970. It is as
  /// exact as the comparison of the hosts' clocks, even if their times of day differ.
  std::int64_t base_time_ns(std::size_t file) const;
  /// The number of ranks of the epoch, given by its index, that have run a tensor in the set.
  std::size_t members(std::size_t epoch, ProcessSetId set) const;
  std::uint64_t bytes() const { return bytes_; }

  /// One sentence for each thing that is missing or was left out.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Status look_through(const std::string& path, const OnProgress& on_progress);
  void finish();
  void take_epochs();
  void take_changes();
  void note_faults(const RankFile& rank);

  std::vector<RankFile> ranks_;
  std::vector<AlignedClock> clocks_;
  std::vector<JobEpoch> epochs_;
  std::vector<std::size_t> epoch_of_;
  std::vector<EpochChange> changes_;
  std::int64_t begin_ns_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::string> notes_;
};

/// Returns the files `base`.rank<number>, by rank, and then those of later epochs, by epoch and rank. A file
/// of a later epoch is one of an elastic job. A folder that cannot be listed counts as empty.
std::vector<std::string> record_files(const std::string& base);

/// Returns "trace.json" for "trace.json.rank3", and for "trace.json.epoch2.rank3" if that is a file of an
/// elastic job; empty for other names.
std::string base_of_records(const std::string& path);

/// "2 of 3 ranks"; in an elastic job "8 of 9 ranks of 3 epochs", where a rank counts in each epoch.
std::string extent_text(const JobFiles& files);

/// "rank 3"; in an elastic job "rank 3 in epoch 2".
std::string name_of_rank(const TimelineOrigin& origin);

/// Reports that a block of records was read.
Status report_progress(const OnProgress& on_progress, std::size_t records);

/// The job's id in hexadecimal digits, such as "1f3c...", as dabkerun --verbose prints it.
std::string text_of(const JobId& job);

}  // namespace dabke::timeline

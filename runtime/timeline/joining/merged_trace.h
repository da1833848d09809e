// Writes the one Chrome trace of a job. Each rank is a process of the trace. Its rows (threads) show steps,
// lanes, counters, threads with spans, and tensors. docs/reference/timeline-trace.md has every event and
// argument.
//
// All events of a row are complete ones ("X") that lie within or beside each other, even if records are
// missing or wrong. Viewers drop or misplace events that cross. Therefore:
//
//  - Batches that overlap get lanes of their own, and so do operations of a tensor that overlap. Each process
//    set gets rows of its own.
//  - A negotiation that begins before the previous operation has ended is drawn from that end on.
//  - A step of a batch that begins before the previous step has ended is drawn from that end on.
//  - An arrow begins and ends within the events that it connects.
//
// In an elastic job, a rank number has one process of the trace in all epochs, and a name one row. The
// process of the whole job has a row with the changes between the epochs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/timeline/event_arguments.h"
#include "runtime/timeline/joining/intervals.h"
#include "runtime/timeline/joining/merged_events.h"
#include "runtime/timeline/joining/merged_rows.h"
#include "runtime/timeline/joining/record_joiner.h"
#include "runtime/timeline/joining/row_numbers.h"

namespace dabke::timeline {

class MergedTrace final : public JoinSink {
 public:
  /// Writes the beginning of the trace. `joiner` provides the names.
  MergedTrace(MergedFile& file, const JobFiles& files, const RecordJoiner& joiner);

  void batch(const JoinedBatch& batch) override;
  void lonely_tensor(std::size_t rank, const JoinedTensor& tensor) override;
  void called(std::size_t rank, const Record& record, std::int64_t at_ns) override;
  void span(std::size_t rank, std::uint32_t thread, std::uint32_t name, std::int64_t begin_ns,
            std::int64_t end_ns) override;
  void wait(std::size_t rank, std::uint32_t thread, std::int64_t begin_ns, std::int64_t end_ns) override;
  void step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step) override;
  void cycle(std::size_t rank, std::int64_t at_ns) override;
  void lost(std::size_t rank, std::int64_t at_ns, std::uint64_t count) override;
  void load(std::size_t rank, std::int64_t at_ns, const Load& load) override;

  /// Ends the trace, with the report of the job as json_of(TraceReport). The caller finishes the file.
  void finish(std::string_view report);

 private:
  using RowId = MergedEvents::RowId;
  struct Lane {
    RowId row = 0;
    std::int64_t free_ns = 0;  // the time from which on the lane is free
  };
  using Lanes = std::vector<Lane>;
  /// A rank number, in all epochs.
  struct RankRows {
    std::vector<std::size_t> files;  // by epoch
    RowNumbers tensor_numbers{most_of(NameKind::tensor) + 1};
    RowNumbers thread_numbers{most_of(NameKind::thread) + 1};
    std::unordered_map<RowId, std::int64_t> ends_ns;  // end of the last event in each row that exists
    Lanes lanes;
    std::map<std::uint32_t, std::map<ProcessSetId, Lanes>> tensors;  // by number of the name
    RowId further = rows::kFirstFurther;                             // the next free row
    std::pair<std::int64_t, std::size_t> last_mark{kNotKnown, 0};    // of a step, and its file
    Load load, written_load;  // the newest load, and the one that was written last
    std::int64_t load_ns = kNotKnown;
  };

  /// The content of otherData.
  std::string facts(std::string_view report) const;
  void name_process(const RankRows& rank);
  void write_changes();
  RankRows& rows_of(std::size_t rank) { return rows_[slots_[rank]]; }
  /// Adds the epoch, in an elastic job.
  EventArguments& add_epoch(EventArguments& args, std::size_t rank) const;
  void need_row(std::size_t rank, RowId row, std::string_view name) { need_row(rank, row, name, row); }
  void need_row(std::size_t rank, RowId row, std::string_view name, RowId place);
  /// Returns the first lane that is free when `when` begins, else a new lane, whose row is still 0. If there
  /// are kMostLanes lanes, it returns the last.
  static Lane& lane_for(Lanes& lanes, const Interval& when);
  RowId tensor_row(std::size_t rank, std::uint32_t tensor, ProcessSetId set, const Interval& when);
  RowId lane_row(std::size_t rank, const Interval& when);
  RowId thread_row(std::size_t rank, std::uint32_t thread);
  /// Returns the part of `when` after the row's last event. The row then ends with that part.
  Interval take_place(std::size_t rank, RowId row, Interval when);

  /// The row and the time of an event that was drawn.
  struct Drawn {
    RowId row = 0;
    Interval when;
  };
  Drawn write_lane(const JoinedBatch& batch, const RankPart& part, const RankPart* last,
                   std::int64_t before_ns);
  /// Returns the negotiation of the tensor that the rank submitted last.
  Drawn write_tensors(const JoinedBatch& batch, const RankPart& part);
  void write_steps(const RankPart& part, RowId row, const Interval& within);
  void write_arrow(const RankPart& last, const Drawn& from, const RankPart& part, const Drawn& to);
  void write_bandwidth(const JoinedBatch& batch, const RankPart& part);
  void write_load(std::size_t rank);
  void write_error(std::size_t rank, RowId row, const JoinedTensor& tensor, std::int64_t at_ns);
  /// Returns the set that the program passed. That of a message is in its name; `set` has its two ranks.
  ProcessSetId set_of_call(std::size_t rank, std::uint32_t tensor, ProcessSetId set) const;
  std::string step_name(std::size_t rank, const JoinedStep& step) const;
  int rank_at(std::size_t index) const { return files_.ranks()[index].origin.rank; }

  const JobFiles& files_;
  const RecordJoiner& joiner_;
  std::vector<RankRows> rows_;      // by rank number
  std::vector<std::size_t> slots_;  // the index in rows_ of each file
  MergedEvents events_;
};

}  // namespace dabke::timeline

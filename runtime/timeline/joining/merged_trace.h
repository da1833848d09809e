// Writes the one Chrome trace of a job: each rank is a process of the trace, with rows (threads) for its steps, its lanes, its
// counters, the threads with spans, and each of its tensors. docs/timeline.md has every event and argument.
//
// In every row events are whole ("X") and lie within or beside each other, whatever the records say, because viewers drop or
// misplace what crosses the end of another:
//
//   - batches that overlap have lanes of their own; so have the operations of a tensor, and each process set its rows;
//   - a negotiation that begins before the operation before it has ended is drawn from there on; so is a step of a batch
//     that begins before the step before it has ended;
//   - an arrow begins and ends within the events that it connects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "runtime/timeline/event_arguments.h"
#include "runtime/timeline/joining/intervals.h"
#include "runtime/timeline/joining/merged_file.h"
#include "runtime/timeline/joining/merged_rows.h"
#include "runtime/timeline/joining/record_joiner.h"

namespace dabke::timeline {

class MergedTrace final : public JoinSink {
 public:
  /// Writes the beginning. `joiner` tells it names.
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

  /// Ends it, with what the job's records say in all (json_of(TraceReport)). The file is the caller's to finish.
  void finish(std::string_view report);

 private:
  using RowId = std::uint32_t;
  struct Lane {
    RowId row = 0;
    std::int64_t free_ns = 0;  // from when on
  };
  using Lanes = std::vector<Lane>;
  struct RankRows {
    std::unordered_map<RowId, std::int64_t> ends_ns;  // of the last event in each row that is there
    Lanes lanes;
    std::map<std::uint32_t, std::map<ProcessSetId, Lanes>> tensors;  // by name
    RowId further = rows::kFirstFurther;                             // the next that is free
    std::int64_t last_step_ns = kNotKnown;
    Load load, written_load;  // the newest, and what was written last
    std::int64_t load_ns = kNotKnown;
  };

  void write_facts(std::string_view report);
  void name_process(std::size_t rank);
  void need_row(std::size_t rank, RowId row, std::string_view name) { need_row(rank, row, name, row); }
  void need_row(std::size_t rank, RowId row, std::string_view name, RowId place);
  /// The first that is free when it begins; a new one, whose row is not known yet, where there is none.
  static Lane& lane_for(Lanes& lanes, const Interval& when);
  RowId tensor_row(std::size_t rank, std::uint32_t tensor, ProcessSetId set, const Interval& when);
  RowId lane_row(std::size_t rank, const Interval& when);
  RowId thread_row(std::size_t rank, std::uint32_t thread);
  /// What is left of it in the row; it is the row's last then.
  Interval take_place(std::size_t rank, RowId row, Interval when);

  /// An event where it is drawn.
  struct Drawn {
    RowId row = 0;
    Interval when;
  };
  Drawn write_lane(const JoinedBatch& batch, const RankPart& part, const RankPart* last,
                   std::int64_t before_ns);
  /// The negotiation of the tensor that the rank submitted last.
  Drawn write_tensors(const JoinedBatch& batch, const RankPart& part);
  void write_steps(const RankPart& part, RowId row, const Interval& within);
  void write_arrow(const RankPart& last, const Drawn& from, const RankPart& part, const Drawn& to);
  void write_bandwidth(const JoinedBatch& batch, const RankPart& part);
  void write_load(std::size_t rank);
  void write_counter(std::size_t rank, Event counter, std::int64_t at_ns, std::uint64_t value);
  void write_error(std::size_t rank, RowId row, const JoinedTensor& tensor, std::int64_t at_ns);
  void whole(std::size_t rank, RowId row, std::string_view quoted_name, const Interval& when,
             const EventArguments& args = {});
  void instant(std::size_t rank, RowId row, char scope, std::string_view name, std::int64_t at_ns,
               const EventArguments& args = {});
  void metadata(int pid, std::optional<RowId> row, Event event, const EventArguments& args);
  std::string step_name(std::size_t rank, const JoinedStep& step) const;
  fmt::memory_buffer& next_event();
  int rank_at(std::size_t index) const { return files_.ranks()[index].origin.rank; }

  MergedFile& file_;
  const JobFiles& files_;
  const RecordJoiner& joiner_;
  std::vector<RankRows> rows_;
  fmt::memory_buffer text_;
  bool any_event_ = false;
  std::uint64_t arrows_ = 0;
};

}  // namespace dabke::timeline

// Joins the records of all ranks of a job, as they come, into what happened to it: its batches with the part of each rank, and
// the spans and steps of the application.
//
//   1. The ranks' files are read together, always on from the one that is behind, by the one clock.
//   2. On each rank a submit waits for the order of its name; the order puts the tensor into its batch; what the batch
//      does, and the end of its tensors, is added there.
//   3. A batch is told once every rank of its set has ended it, or has no more records. What one rank alone has not ended, for
//      whatever reason, is told when kMostOpen later ones are open.
// So memory is taken for what is open, and not for the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/timeline/joining/job_files.h"
#include "runtime/timeline/joining/record_file.h"

namespace dabke::timeline {

/// Times are nanoseconds of the one clock.
inline constexpr std::int64_t kNotKnown = -1;

/// One tensor of a batch on one rank.
struct JoinedTensor {
  std::uint64_t order = 0;  // 0: it has none
  std::uint32_t name = 0;
  std::int64_t submit_ns = kNotKnown;  // kNotKnown: it was before the timeline, or the rank had joined
  std::int64_t order_ns = kNotKnown;
  std::int64_t end_ns = kNotKnown;  // kNotKnown: it has not ended
  std::uint64_t bytes = 0;
  std::uint32_t thread = 0;  // that has submitted it
  ProcessSetId set = kWorldSet;
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::u8;
  std::uint32_t shape = 0;
  std::uint32_t error = 0;
  Code code = Code::ok;
};

/// What a batch does on one rank, from queue to unpack; the steps of a batch do not cross.
struct JoinedStep {
  Record::What what = Record::What::run;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = kNotKnown;
  std::uint32_t name = 0;
  std::uint16_t backend = 0;
  std::uint16_t algorithm = 0;
};

/// A batch on one rank.
struct RankPart {
  std::size_t index = 0;  // of the rank in JobFiles::ranks()
  std::vector<JoinedTensor> tensors;
  std::vector<JoinedStep> steps;
  std::uint16_t backend = 0;
  std::size_t left = 0;  // tensors that have not ended

  std::uint64_t bytes() const;
  /// When the last of its tensors was submitted; kNotKnown where that is not known of all.
  std::int64_t ready_ns() const;
  /// From the end of the queue on, and once a device has waited for the data; the moment of its order where nothing was done.
  std::int64_t begin_ns() const;
  std::int64_t end_ns() const;
  /// The longest run that has ended; null where there is none.
  const JoinedStep* main_run() const;
};

struct JoinedBatch {
  std::uint64_t order = 0;
  std::uint32_t number = 0;
  ProcessSetId set = kWorldSet;
  CollectiveKind kind = CollectiveKind::allreduce;
  std::vector<RankPart> parts;  // by index

  /// The part of the rank that was ready last, and how long the one before it had been; null where not every rank's
  /// readiness is known, or there is one rank alone.
  const RankPart* last_ready(std::int64_t* before_ns = nullptr) const;
};

/// What a rank has on its way at a moment.
struct Load {
  std::uint64_t queued = 0;  // batches that wait for those before them
  std::uint64_t bytes = 0;   // of tensors that have been ordered and have not ended
  bool operator==(const Load&) const = default;
};

/// Whoever wants to know. A rank is named by its index in JobFiles::ranks(); names are asked of RecordJoiner.
class JoinSink {
 public:
  virtual ~JoinSink() = default;
  virtual void batch(const JoinedBatch& batch) = 0;
  /// It was submitted and never ordered, or it failed before.
  virtual void lonely_tensor(std::size_t rank, const JoinedTensor& tensor) = 0;
  /// Barriers, joins and changes of process sets, which have no order.
  virtual void called(std::size_t rank, const Record& record, std::int64_t at_ns) = 0;
  /// A span of the application. Those of a thread and its waits lie within or beside each other, whichever records are lost.
  virtual void span(std::size_t rank, std::uint32_t thread, std::uint32_t name, std::int64_t begin_ns,
                    std::int64_t end_ns) = 0;
  /// A thread of the application waits for tensors to end.
  virtual void wait(std::size_t rank, std::uint32_t thread, std::int64_t begin_ns, std::int64_t end_ns) = 0;
  virtual void step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step) = 0;
  virtual void cycle(std::size_t rank, std::int64_t at_ns) = 0;
  virtual void lost(std::size_t rank, std::int64_t at_ns, std::uint64_t count) = 0;
  virtual void load(std::size_t rank, std::int64_t at_ns, const Load& load) = 0;
};

class RecordJoiner {
 public:
  static constexpr std::size_t kMostOpen = 1 << 16;

  explicit RecordJoiner(const JobFiles& files) : files_(files) {}

  /// Reads all files from their beginning, and tells the sink. Once.
  Status run(JoinSink& sink, const OnProgress& on_progress = {});

  /// As a record of this rank has it; empty of 0.
  std::string_view name(std::size_t rank, NameKind kind, std::uint32_t number) const;

 private:
  using BatchKey = std::pair<std::uint64_t, std::uint32_t>;
  using TensorKey = std::pair<std::uint64_t, std::uint32_t>;  // order and name
  struct Submit {
    std::int64_t at_ns = 0;
    std::uint64_t bytes = 0;
    std::uint32_t thread = 0;
    CollectiveKind kind = CollectiveKind::allreduce;
    DType dtype = DType::u8;
  };
  /// What a thread has begun.
  struct OpenSpan {
    std::uint32_t name = 0;
    std::int64_t begin_ns = 0;
    bool is_wait = false;  // else a span of the application
  };
  struct ThreadRow {
    std::vector<OpenSpan> open;  // the innermost last
    std::int64_t last_ns = 0;
  };
  struct TensorPosition {
    BatchKey batch;
    std::size_t index = 0;  // in RankPart::tensors
  };
  struct Reader {
    RecordFile file;
    std::vector<Record> block;
    std::size_t next = 0;    // in the block
    std::int64_t at_ns = 0;  // of the next record
    std::int64_t last_ns = 0;
    std::map<std::pair<ProcessSetId, std::uint32_t>, std::deque<Submit>> submits;
    std::map<TensorKey, TensorPosition> tensors;  // ordered and not ended
    std::map<std::uint32_t, ThreadRow> threads;
    Load load;
  };

  /// Whether there is one.
  Result<bool> fetch(std::size_t rank);
  void take(std::size_t rank, const Record& record, std::int64_t at_ns);
  void take_submit(std::size_t rank, const Record& record, std::int64_t at_ns);
  void take_order(std::size_t rank, const Record& record, std::int64_t at_ns);
  void take_end(std::size_t rank, const Record& record, std::int64_t at_ns);
  void take_early_error(std::size_t rank, const Record& record, std::int64_t at_ns);
  void take_step(std::size_t rank, const Record& record, std::int64_t at_ns);
  void count_queued(std::size_t rank, const Record& record, std::int64_t at_ns);
  void take_span(std::size_t rank, const Record& record, std::int64_t at_ns);
  void end_innermost(std::size_t rank, std::uint32_t thread, ThreadRow& row, std::int64_t at_ns);
  void end_rank(std::size_t rank);
  /// Nothing where no submit of it is known.
  Submit* first_submit(Reader& reader, const Record& record);
  void drop_first_submit(Reader& reader, const Record& record);
  RankPart* part_of(std::size_t rank, const BatchKey& key);
  RankPart& add_part(JoinedBatch& batch, std::size_t rank);
  bool is_complete(const JoinedBatch& batch) const;
  void hand_over(std::map<BatchKey, JoinedBatch>::iterator batch);

  const JobFiles& files_;
  JoinSink* sink_ = nullptr;
  OnProgress on_progress_;
  std::deque<Reader> readers_;
  std::vector<bool> has_ended_;
  std::size_t ended_ = 0;
  std::map<BatchKey, JoinedBatch> open_;
};

}  // namespace dabke::timeline

// Joins the records of all ranks into a description of the job: its batches with each rank's part, and the
// spans and steps of the application.
//
//  1. The files of all ranks are read together. The next record is always the earliest one by the one clock.
//  2. A submit on a rank waits for the order of its name. The order puts the tensor into its batch. The
//     activities of the batch and the ends of its tensors are added there.
//  3. A batch goes to the sink once every rank of its set has ended it or has no more records.
//  4. A batch that some rank never ends goes to the sink when kMostOpen later batches are open.
//  5. Orders count anew in each epoch of an elastic job, so a batch belongs to an epoch.
// So the memory depends on what is open, and not on the size of the files. A file is open from its first
// record to its last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/timeline/joining/job_files.h"
#include "runtime/timeline/joining/record_file.h"

namespace dabke::timeline {

/// An unknown time. All times are nanoseconds of the one clock since JobFiles::begin_ns().
inline constexpr std::int64_t kNotKnown = -1;

/// One tensor of a batch on one rank.
struct JoinedTensor {
  std::uint64_t order = 0;  // 0 if it has none
  std::uint32_t name = 0;
  std::int64_t submit_ns = kNotKnown;  // kNotKnown if it was before the timeline, or if the rank had joined
  std::int64_t order_ns = kNotKnown;
  std::int64_t end_ns = kNotKnown;  // kNotKnown if it has not ended
  std::uint64_t bytes = 0;
  std::uint32_t thread = 0;  // the thread that submitted it
  ProcessSetId set = kWorldSet;
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::u8;
  std::uint32_t shape = 0;
  std::uint32_t error = 0;
  Code code = Code::ok;
};

/// An activity of a batch on one rank, from queue to unpack. Activities may lie within each other.
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
  std::size_t index = 0;  // index of the rank in JobFiles::ranks()
  std::vector<JoinedTensor> tensors;
  std::vector<JoinedStep> steps;
  std::uint16_t backend = 0;
  std::size_t left = 0;  // tensors that have not ended

  std::uint64_t bytes() const;
  /// The time when the last of the tensors was submitted; kNotKnown if one of their submits is not known.
  std::int64_t ready_ns() const;
  /// The time when the batch has left the queue and a device has its inputs. Without such records it is the
  /// time of its order.
  std::int64_t begin_ns() const;
  std::int64_t end_ns() const;
  /// The longest run that has ended; null if there is none.
  const JoinedStep* main_run() const;
};

struct JoinedBatch {
  std::uint64_t epoch = 0;
  std::uint64_t order = 0;
  std::uint32_t number = 0;
  ProcessSetId set = kWorldSet;
  CollectiveKind kind = CollectiveKind::allreduce;
  std::vector<RankPart> parts;  // sorted by index

  /// Returns the part of the rank that was ready last, and stores the time at which the rank before it was
  /// ready. Returns null if the time is not known for every rank, or if there is only one rank.
  const RankPart* last_ready(std::int64_t* before_ns = nullptr) const;
};

/// The work that a rank has in progress at a moment.
struct Load {
  std::uint64_t queued = 0;  // batches that wait for earlier ones
  std::uint64_t bytes = 0;   // bytes of tensors that are ordered and have not ended
  bool operator==(const Load&) const = default;
};

/// Receives the description of the job. A rank is given by its index in JobFiles::ranks(), so in an elastic
/// job it is a rank in one epoch. RecordJoiner has the names.
class JoinSink {
 public:
  virtual ~JoinSink() = default;
  virtual void batch(const JoinedBatch& batch) = 0;
  /// A tensor that was submitted and never ordered, or that failed before its order.
  virtual void lonely_tensor(std::size_t rank, const JoinedTensor& tensor) = 0;
  /// A barrier, a join or a change of process sets. These calls have no order.
  virtual void called(std::size_t rank, const Record& record, std::int64_t at_ns) = 0;
  /// A span of the application. The spans and waits of a thread lie within or beside each other, even if
  /// records are lost.
  virtual void span(std::size_t rank, std::uint32_t thread, std::uint32_t name, std::int64_t begin_ns,
                    std::int64_t end_ns) = 0;
  /// A wait of an application's thread for tensors to end.
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

  /// Reads all files from their beginning and calls the sink. Call it once.
  Status run(JoinSink& sink, const OnProgress& on_progress = {});

  /// Returns the name that a record of this rank refers to; empty for 0.
  std::string_view name(std::size_t rank, NameKind kind, std::uint32_t number) const;

 private:
  struct BatchKey {
    std::size_t epoch = 0;  // its index
    std::uint64_t order = 0;
    std::uint32_t number = 0;
    auto operator<=>(const BatchKey&) const = default;
  };
  using TensorKey = std::pair<std::uint64_t, std::uint32_t>;  // order and name
  struct Submit {
    std::int64_t at_ns = 0;
    std::uint64_t bytes = 0;
    std::uint32_t thread = 0;
    CollectiveKind kind = CollectiveKind::allreduce;
    DType dtype = DType::u8;
  };
  /// A span or a wait that a thread has begun.
  struct OpenSpan {
    std::uint32_t name = 0;
    std::int64_t begin_ns = 0;
    bool is_wait = false;  // false for a span of the application
  };
  struct ThreadRow {
    std::vector<OpenSpan> open;  // the innermost is the last
    std::int64_t last_ns = 0;
  };
  struct TensorPosition {
    BatchKey batch;
    std::size_t index = 0;  // in RankPart::tensors
  };
  struct Reader {
    std::optional<RecordFile> file;  // nothing before its first record
    std::vector<Record> block;
    std::size_t next = 0;    // index in the block
    std::int64_t at_ns = 0;  // time of the next record
    std::int64_t last_ns = 0;
    std::map<std::pair<ProcessSetId, std::uint32_t>, std::deque<Submit>> submits;
    std::map<TensorKey, TensorPosition> tensors;  // ordered and not ended
    std::map<std::uint32_t, ThreadRow> threads;
    Load load;
  };

  /// Opens the file if it is not open yet.
  Status open(std::size_t rank);
  /// Reads on to the next record; false if there is none.
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
  /// Returns null if no submit of it is known.
  Submit* first_submit(Reader& reader, const Record& record);
  void drop_first_submit(Reader& reader, const Record& record);
  RankPart* part_of(std::size_t rank, const BatchKey& key);
  RankPart& add_part(JoinedBatch& batch, std::size_t rank);
  bool is_complete(const BatchKey& key, const JoinedBatch& batch) const;
  std::int64_t at_of(std::size_t rank, std::int64_t time_ns) const;
  void hand_over(std::map<BatchKey, JoinedBatch>::iterator batch);

  const JobFiles& files_;
  JoinSink* sink_ = nullptr;
  OnProgress on_progress_;
  std::deque<Reader> readers_;
  std::vector<bool> has_ended_;
  std::vector<std::size_t> ended_;  // files of each epoch that have ended
  std::map<BatchKey, JoinedBatch> open_;
};

}  // namespace dabke::timeline

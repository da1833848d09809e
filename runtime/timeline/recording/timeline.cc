#include "runtime/timeline/recording/timeline.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"
#include "runtime/timeline/output_file.h"
#include "runtime/timeline/recording/mpsc_queue.h"
#include "runtime/timeline/recording/record_file_writer.h"
#include "runtime/timeline/recording/thread_memo.h"
#include "runtime/timeline/recording/writer_sleep.h"
#include "runtime/timeline/trace_writer.h"

namespace dabke::timeline {
namespace {

/// The time between two reads of the queue while records are coming. The records that were read are in the
/// file right after.
constexpr std::chrono::milliseconds kNap{20};
/// The writer's niceness, so that the job comes first. The writer still gets a tenth of a core that is never
/// free.
constexpr int kNice = 10;
/// The longest wait at the end for a thread that was interrupted in the middle of a record.
constexpr std::chrono::seconds kPatience{1};
/// Bytes for the records that still come until all ranks have stopped at one order. They belong to the
/// operations that the programs have in flight, and a low limit does not make these fewer.
constexpr std::uint64_t reserve(std::uint64_t max_bytes) {
  return std::min(max_bytes / 4, std::clamp<std::uint64_t>(max_bytes / 8, 1 << 20, 16 << 20));
}
/// The time that end() gives to batches that were ordered before it.
constexpr std::chrono::seconds kBatchPatience{1};

std::int64_t nanoseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::string file_of(const Timeline::Options& options) {
  const TimelineOrigin& origin = options.origin;
  if (options.format == TimelineFormat::records) return options.path + suffix_of(origin);
  const bool is_later = origin.roster && origin.epoch > 1;
  return is_later ? fmt::format("{}.epoch{}", options.path, origin.epoch) : options.path;
}

class QueuedTimeline final : public Timeline {
 public:
  explicit QueuedTimeline(Options options)
      : mark_cycles_(options.mark_cycles),
        max_bytes_(options.max_bytes),
        on_error_(std::move(options.on_error)),
        on_full_(std::move(options.on_full)),
        on_closed_(std::move(options.on_closed)),
        queue_(options.queue_records) {}
  ~QueuedTimeline() override { static_cast<void>(close().is_ok()); }

  Status start(const Options& options);

  void put(Record record) noexcept override {
    if (closing_.load(std::memory_order_relaxed)) return;
    if (record.time_ns == 0) record.time_ns = nanoseconds(Clock::now());
    if (record.thread == 0) record.thread = thread();
    const auto position = queue_.push(std::move(record));
    if (!position) lost_.fetch_add(1, std::memory_order_relaxed);
    // Records may fill the queue within a nap, so the writer is woken at every quarter of the queue.
    sleep_.notify(!position || (*position & (queue_.capacity() / 4 - 1)) == 0);
  }
  void mark_cycle() override {
    if (mark_cycles_) put({.what = Record::What::cycle});
  }
  bool nears_limit() override;
  void batch_ordered() override { batches_.fetch_add(1, std::memory_order_relaxed); }
  void batch_ended() override {
    if (batches_.fetch_sub(1) == 1 && ending_) sleep_.wake();
  }
  void end() override {
    ending_ = true;
    sleep_.wake();
  }
  Status close() override;
  bool has_ended() const override { return has_ended_; }

 protected:
  std::uint32_t number_of(NameKind kind, std::string_view name) override {
    ThreadMemo& mine = memo();
    return kind == NameKind::text ? mine.text(name, names_) : names_.number_of(kind, name, mine.last());
  }
  std::uint32_t shape_number(const Shape& shape, TensorId tensor) override {
    return names_.number_of(shape, tensor);
  }

 private:
  /// Returns the thread's number, or 0 if there is no memory for its name.
  std::uint32_t thread() {
    std::uint32_t number = 0;
    (void)attempt([&] { number = memo().thread(); });
    return number;
  }
  ThreadMemo& memo() { return ThreadMemo::of(this, opened_ns_, names_); }

  // Called on the writer thread.
  void write_until_closed();
  void wait_for_batches();
  /// Writes all queued records. Returns false if there were none.
  bool drain();
  void drain_stragglers();
  void flush();
  /// The approximate size in the file of all records that were put and all names that were given until now.
  std::uint64_t put_bytes() const { return queue_.claimed() * file_->bytes_of_record() + names_.bytes(); }
  void report(const Status& error);

  const bool mark_cycles_;
  const std::uint64_t max_bytes_;
  // Called on the writer thread, and empty once they were called.
  std::function<void(const Status&)> on_error_;
  std::function<void()> on_full_;
  std::function<void(const Status&)> on_closed_;
  const std::int64_t opened_ns_ = nanoseconds(Clock::now());
  NameTable names_;
  MpscQueue<Record> queue_;
  std::unique_ptr<RecordWriter> file_;  // used by the writer thread
  WriterSleep sleep_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> has_ended_{false};
  std::atomic<std::int64_t> batches_{0};  // ordered and not ended
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::uint64_t> stops_at_{0};  // the limit of put_bytes(), if the file has a limit
  std::atomic<bool> has_neared_limit_{false};
  std::uint64_t written_ = 0;      // used by the writer thread
  std::uint64_t marked_lost_ = 0;  // used by the writer thread
  Status ended_with_;              // used by the writer thread, and by close() after it

  std::mutex close_mutex_;
  std::jthread writer_;
};

Status QueuedTimeline::start(const Options& options) {
  const std::string path = file_of(options);
  // If this fails, opening the file reports why.
  if (options.begins_new_file) (void)::unlink(path.c_str());
  if (options.format == TimelineFormat::horovod) {
    DABKE_ASSIGN_OR_RETURN(file_, open_trace(path, names_, opened_ns_, options.max_bytes));
  } else {
    DABKE_ASSIGN_OR_RETURN(file_, RecordFileWriter::open(path, options.origin, names_, options.max_bytes));
  }
  stops_at_ = max_bytes_ - reserve(max_bytes_);
  DABKE_ASSIGN_OR_RETURN(writer_, start_thread("dabke-timeline", [this] { write_until_closed(); }));
  return {};
}

Status QueuedTimeline::close() {
  const std::lock_guard lock(close_mutex_);
  if (!ending_) closing_ = true;
  sleep_.wake();
  if (writer_.joinable()) writer_.join();
  return ended_with_;
}

void QueuedTimeline::write_until_closed() {
  // On Linux this sets the priority of this thread alone. Ranks that keep all cores busy wait for each other,
  // so a delay of one delays all. Records can wait.
  (void)setpriority(PRIO_PROCESS, 0, kNice);
  Status stopped;
  try {
    while (!closing_ && !ending_) {
      if (drain()) {
        sleep_.wait(kNap, [this] { return closing_ || ending_; });
      } else {
        sleep_.sleep([this] { return closing_ || ending_ || !queue_.empty(); });
      }
    }
    wait_for_batches();
    closing_ = true;
    drain_stragglers();
    file_->finish(nanoseconds(Clock::now()), {written_, lost_, has_neared_limit_ ? max_bytes_ : 0});
    flush();
  } catch (const std::exception& error) {
    // Memory has run out. The job goes on; records fill the queue and are dropped.
    stopped = without_exceptions([&]() -> Status {
      return {Code::out_of_memory, fmt::format("the timeline stopped early: {}", error.what())};
    });
    report(stopped);
  }
  ended_with_ = without_exceptions([&] { return file_->close(); });
  if (!ended_with_.is_ok()) report(ended_with_);
  if (ended_with_.is_ok()) ended_with_ = std::move(stopped);
  if (on_closed_) (void)attempt([&] { on_closed_(ended_with_); });
  has_ended_ = true;
}

/// Waits for the batches that end() gives time to end.
void QueuedTimeline::wait_for_batches() {
  const TimePoint deadline = Clock::now() + kBatchPatience;
  while (!closing_ && batches_ > 0 && Clock::now() < deadline) {
    drain();
    sleep_.wait(kNap, [this] { return closing_ || batches_ <= 0; });
  }
}

void QueuedTimeline::flush() {
  const std::uint64_t names = names_.bytes();  // read before the flush, which writes at least these
  file_->flush();
  if (!file_->error().is_ok()) report(file_->error());
  if (max_bytes_ == 0) return;
  const std::uint64_t limit = max_bytes_ - reserve(max_bytes_) + written_ * file_->bytes_of_record() + names;
  stops_at_ = limit - std::min(limit, file_->bytes());
  if (on_full_ && nears_limit()) on_full_();
}

bool QueuedTimeline::nears_limit() {
  return max_bytes_ != 0 && !closing_ && !ending_ && put_bytes() >= stops_at_ &&
         !has_neared_limit_.exchange(true);
}

void QueuedTimeline::report(const Status& error) {
  if (const auto on_error = std::exchange(on_error_, nullptr)) on_error(error);
}

bool QueuedTimeline::drain() {
  // The mark comes before the records, so that it is at the time when the queue was still full.
  if (const std::uint64_t lost = lost_; lost != marked_lost_) {
    file_->mark_lost(nanoseconds(Clock::now()), lost - std::exchange(marked_lost_, lost));
  }
  const std::uint64_t written_before = written_;
  Record record;
  while (queue_.pop(record)) {
    file_->write(record);
    ++written_;
  }
  flush();
  return written_ != written_before;
}

void QueuedTimeline::drain_stragglers() {
  // A thread may have claimed a position and been interrupted before it filled the cell. Later records of
  // other threads wait behind that position.
  const TimePoint deadline = Clock::now() + kPatience;
  drain();
  while (!queue_.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    drain();
  }
}

}  // namespace

Status Timeline::check(const Options& options) { return OutputFile::check(file_of(options)); }

Result<std::unique_ptr<Timeline>> Timeline::open(Options options) {
  auto timeline = std::make_unique<QueuedTimeline>(options);
  DABKE_RETURN_IF_ERROR(timeline->start(options));
  return std::unique_ptr<Timeline>(std::move(timeline));
}

}  // namespace dabke::timeline

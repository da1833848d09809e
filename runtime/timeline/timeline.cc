#include "runtime/timeline/timeline.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/exceptions.h"
#include "runtime/base/thread.h"
#include "runtime/timeline/mpsc_queue.h"
#include "runtime/timeline/record.h"
#include "runtime/timeline/tensor_names.h"
#include "runtime/timeline/trace_file.h"
#include "runtime/timeline/trace_writer.h"
#include "runtime/timeline/writer_sleep.h"

namespace dabke {
namespace {

/// The time between two looks into the queue while records are coming. What was seen is in the file right
/// after.
constexpr std::chrono::milliseconds kNap{20};
/// How much the writer gives way to the job. It still gets a tenth of a core that is never free.
constexpr int kNice = 10;
/// How long close() waits for a thread that was interrupted in the middle of a record.
constexpr std::chrono::seconds kPatience{1};

class QueuedTimeline final : public Timeline {
 public:
  QueuedTimeline(TraceFile file, Options options)
      : mark_cycles_(options.mark_cycles),
        on_error_(std::move(options.on_error)),
        file_(std::move(file)),
        queue_(options.queue_records) {}
  ~QueuedTimeline() override { static_cast<void>(close().is_ok()); }

  Status start();

  TensorId tensor(std::string_view name) override { return names_.number_of(name); }
  void negotiate_start(TensorId tensor, CollectiveKind kind) override {
    push(
        {.tensor = tensor, .what = Record::What::negotiate_start, .detail = static_cast<std::uint8_t>(kind)});
  }
  void rank_ready(TensorId tensor, int set_rank) override {
    push({.tensor = tensor, .what = Record::What::rank_ready, .number = set_rank});
  }
  void negotiate_end(TensorId tensor) override {
    push({.tensor = tensor, .what = Record::What::negotiate_end});
  }
  void op_start(std::span<const TensorId> tensors, CollectiveKind kind) override {
    push_each(tensors, Record::What::op_start, static_cast<std::uint8_t>(kind));
  }
  void activity_start(std::span<const TensorId> tensors, const char* activity) override {
    push_each(tensors, Record::What::activity_start, 0, activity);
  }
  void activity_end(std::span<const TensorId> tensors) override {
    push_each(tensors, Record::What::activity_end);
  }
  void op_end(TensorId tensor, DType dtype, const Shape& shape) override {
    Record record{.tensor = tensor, .what = Record::What::op_end, .detail = static_cast<std::uint8_t>(dtype)};
    record.set_shape(shape);
    push(std::move(record));
  }
  void op_error(TensorId tensor, const Status& status) override {
    push({.tensor = tensor,
          .what = Record::What::op_error,
          .spill = std::make_unique<const Record::Spill>(Record::Spill{{}, status})});
  }
  void mark_cycle() override {
    if (mark_cycles_) push({.what = Record::What::cycle});
  }
  Status close() override;

 private:
  std::int64_t now_ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }
  void push(Record record) { push_at(now_ns(), std::move(record)); }
  void push_at(std::int64_t time_ns, Record record) {
    if (closing_.load(std::memory_order_relaxed)) return;
    record.time_ns = time_ns;
    const auto position = queue_.push(std::move(record));
    if (!position) lost_.fetch_add(1, std::memory_order_relaxed);
    // Records that come faster than the nap expects: the writer is called at every quarter of the queue.
    sleep_.notify(!position || (*position & (queue_.capacity() / 4 - 1)) == 0);
  }

  void push_each(std::span<const TensorId> tensors, Record::What what, std::uint8_t detail = 0,
                 const char* text = nullptr) {
    const std::int64_t now = now_ns();
    while (!tensors.empty()) {
      Record record{.tensor = tensors.front(), .what = what, .detail = detail, .more = {.text = text}};
      tensors = tensors.subspan(1);
      record.count = static_cast<std::uint8_t>(std::min(tensors.size(), record.more.tensors.size()));
      std::ranges::copy(tensors.first(record.count), record.more.tensors.begin());
      tensors = tensors.subspan(record.count);
      push_at(now, std::move(record));
    }
  }

  // The writer thread's part.
  void write_until_closed();
  /// Whether there was anything.
  bool drain(TraceWriter& writer);
  void drain_stragglers(TraceWriter& writer);
  void add_new_rows(TraceWriter& writer);
  void flush();
  void tell(const Status& error);

  const bool mark_cycles_;
  std::function<void(const Status&)> on_error_;  // the writer thread's; empty once it was called
  const TimePoint start_ = Clock::now();
  const std::int64_t start_since_epoch_us_ = std::chrono::duration_cast<std::chrono::microseconds>(
                                                 std::chrono::system_clock::now().time_since_epoch())
                                                 .count();
  TensorNames names_;
  TraceFile file_;  // the writer thread's, and close()'s after it
  MpscQueue<Record> queue_;
  WriterSleep sleep_;
  std::atomic<bool> closing_{false};
  std::atomic<std::uint64_t> lost_{0};
  std::uint64_t written_ = 0;      // the writer thread's
  std::uint64_t marked_lost_ = 0;  // the writer thread's
  Status writer_error_;            // the writer thread's, and close()'s after it

  std::mutex close_mutex_;
  bool closed_ = false;
  Status close_status_;
  std::jthread writer_;
};

Status QueuedTimeline::start() {
  DABKE_ASSIGN_OR_RETURN(writer_, start_thread("dabke-timeline", [this] { write_until_closed(); }));
  return {};
}

Status QueuedTimeline::close() {
  const std::lock_guard lock(close_mutex_);
  if (std::exchange(closed_, true)) return close_status_;
  closing_ = true;
  sleep_.wake();
  if (writer_.joinable()) writer_.join();
  close_status_ = file_.close();
  if (close_status_.is_ok()) close_status_ = writer_error_;
  return close_status_;
}

void QueuedTimeline::write_until_closed() {
  // This thread's priority alone, on Linux: ranks that keep all cores busy wait for one another, so one that
  // is held up holds up all, and what is recorded can wait.
  (void)setpriority(PRIO_PROCESS, 0, kNice);
  try {
    TraceWriter writer(file_, start_since_epoch_us_);
    while (!closing_) {
      if (drain(writer)) {
        sleep_.wait(kNap, [this] { return closing_.load(); });
      } else {
        sleep_.sleep([this] { return closing_ || !queue_.empty(); });
      }
    }
    drain_stragglers(writer);
    writer.finish(now_ns(), written_, lost_);
    flush();
  } catch (const std::exception& error) {
    // Out of memory. The job goes on; records fill the queue and are dropped.
    writer_error_ = without_exceptions([&]() -> Status {
      return {Code::out_of_memory, fmt::format("the timeline stopped early: {}", error.what())};
    });
    tell(writer_error_);
  }
}

void QueuedTimeline::flush() {
  file_.flush();
  if (!file_.error().is_ok()) tell(file_.error());
}

void QueuedTimeline::tell(const Status& error) {
  if (const auto on_error = std::exchange(on_error_, nullptr)) on_error(error);
}

bool QueuedTimeline::drain(TraceWriter& writer) {
  // The mark comes before the records, so that it stands where the queue was still full.
  if (const std::uint64_t lost = lost_; lost != marked_lost_) {
    writer.mark_lost(now_ns(), lost - std::exchange(marked_lost_, lost));
  }
  const std::uint64_t written_before = written_;
  Record record;
  while (queue_.pop(record)) {
    if (record.largest_tensor() > writer.rows()) add_new_rows(writer);
    writer.write(record);
    ++written_;
  }
  add_new_rows(writer);
  flush();
  return written_ != written_before;
}

void QueuedTimeline::drain_stragglers(TraceWriter& writer) {
  // A thread may have claimed its place and be interrupted before it could fill it; what others recorded
  // after it waits behind that place.
  const TimePoint deadline = Clock::now() + kPatience;
  drain(writer);
  while (!queue_.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    drain(writer);
  }
}

void QueuedTimeline::add_new_rows(TraceWriter& writer) {
  const std::size_t count = names_.count();
  while (writer.rows() < count) writer.add_row(names_.name(static_cast<std::uint32_t>(writer.rows() + 1)));
}

}  // namespace

Result<std::unique_ptr<Timeline>> Timeline::open(Options options) {
  DABKE_ASSIGN_OR_RETURN(TraceFile file, TraceFile::open(options.path));
  auto timeline = std::make_unique<QueuedTimeline>(std::move(file), std::move(options));
  DABKE_RETURN_IF_ERROR(timeline->start());
  return std::unique_ptr<Timeline>(std::move(timeline));
}

}  // namespace dabke

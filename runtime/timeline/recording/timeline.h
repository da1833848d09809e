// The timeline of one rank: what happened to its tensors and batches, and when.
//
// Any thread records into a bounded lock-free queue; a writer thread of its own sleeps until there is something, and
// writes. What is written is a file of this rank's records (record_file_writer.h), or of rank 0 a Chrome trace with the
// event names that Horovod's users know (trace_writer.h).
//
// A tensor's life: submit at the submitting thread; ready, as rank 0 hears of it; order, by which it joins a batch; done
// or error. A batch's: queue, wait for data, allocate, pack, run, unpack, each with a beginning and an end.
//
// A record that finds the queue full is dropped, and nobody waits: a timeline with a marked gap is worth more than a
// training step that the timeline itself made slow. The file says where records are missing, and how many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/timeline/name_table.h"
#include "runtime/timeline/record.h"
#include "runtime/timeline/record_form.h"

namespace dabke::timeline {

class Timeline {
 public:
  using TensorId = std::uint32_t;

  struct Options {
    std::string path;  // of records, that of rank 3 gets ".rank3"
    bool mark_cycles = false;
    /// What is at the path keeps its content, for those who have it open, and loses its name.
    bool begins_new_file = false;
    TimelineFormat format = TimelineFormat::horovod;  // not automatic
    TimelineOrigin origin = {};                       // of records
    /// 64 bytes each; emptied every 20 ms while records come.
    std::size_t queue_records = std::size_t{1} << 18;
    /// Called once, on the writer's thread, when writing fails, or only closing: from then on records are thrown away.
    std::function<void(const Status&)> on_error = {};
    /// The file never has more; what has no room is left out and counted as lost. 0: no limit.
    std::uint64_t max_bytes = 0;
    /// Called on the writer's thread when the file will soon have `max_bytes`, unless nears_limit() has said so. Nothing else
    /// happens then.
    std::function<void()> on_full = {};
    /// Called once, on the writer's thread, when the file is closed, with what close() returns, which waits for it.
    std::function<void(const Status&)> on_closed = {};
  };

  /// Opens the file and starts the writer; an error names the path and why it cannot be written.
  static Result<std::unique_ptr<Timeline>> open(Options options);
  /// The error that open() would return now for want of a file that can be written; leaves all as it is.
  static Status check(const Options& options);
  virtual ~Timeline() = default;  // closes

  // ---- from any thread
  /// The id of a tensor's name: the same name gives the same id. A look-up under a lock: keep the id.
  TensorId tensor(std::string_view name) { return number_of(NameKind::tensor, name); }
  /// A backend's name, an algorithm's, what a run is called.
  std::uint16_t text(std::string_view text) {
    return text.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(number_of(NameKind::text, text));
  }

  /// Made now, by the calling thread, unless the record has a time.
  virtual void put(Record record) noexcept = 0;

  /// `set_rank`: Record::kNobody for none. `flags`: kFirst, kLast.
  void ready(TensorId tensor, CollectiveKind kind, ProcessSetId set, std::uint32_t set_rank, int flags) {
    put({.name = tensor,
         .process_set = set,
         .number = set_rank,
         .what = Record::What::ready,
         .kind = kind,
         .flags = static_cast<std::uint8_t>(flags)});
  }
  /// A tensor is done. The rest of what it says is as `about` has it.
  void done(Record about, const Shape& shape) {
    about.what = Record::What::done;
    about.number = shape_number(shape, about.name);
    put(about);
  }
  void error(Record about, const Status& status) {
    about.what = Record::What::error;
    about.number = number_of(NameKind::error, status.message());
    about.bytes = static_cast<std::uint64_t>(status.code());
    put(about);
  }
  virtual void mark_cycle() = 0;
  /// Every begin needs its end on the same thread.
  void begin_span(std::string_view name) {
    put({.name = number_of(NameKind::span, name), .what = Record::What::span});
  }
  void end_span() { put({.what = Record::What::span, .flags = Record::kEnd}); }
  void begin_wait() { put({.what = Record::What::wait}); }
  void end_wait() { put({.what = Record::What::wait, .flags = Record::kEnd}); }
  void mark_step(std::uint64_t step) { put({.bytes = step, .what = Record::What::step}); }

  /// Batches that have been ordered and have not ended: end() lets them.
  virtual void batch_ordered() = 0;
  virtual void batch_ended() = 0;

  /// Whether what was recorded until now, written or not, comes so near to `max_bytes` that it is time to end: said once.
  virtual bool nears_limit() = 0;

  /// Ends it without waiting: the writer's thread gives the batches that have been ordered a moment to end, writes
  /// everything recorded by then, and closes the file.
  virtual void end() = 0;
  /// Writes everything recorded so far, and closes the file. Later records are dropped. Returns the first error of
  /// writing since open(), such as a full disk, with path and cause; so does every later call.
  virtual Status close() = 0;
  /// Whether close() need not wait.
  virtual bool has_ended() const = 0;

 protected:
  virtual std::uint32_t number_of(NameKind kind, std::string_view name) = 0;
  virtual std::uint32_t shape_number(const Shape& shape, TensorId tensor) = 0;
};

/// Records what a stream of a device does, with the times at which it comes there.
class StreamRecorder {
 public:
  virtual ~StreamRecorder() = default;
  /// `record` is made where the stream has come to the end of all that it has been given.
  virtual void put(const Record& record) noexcept = 0;
};

/// Where a batch is recorded, and what all of its records say.
struct BatchTrace {
  Timeline* timeline = nullptr;  // null: off
  StreamRecorder* stream =
      nullptr;  // what is told happens on a device, when its stream comes there; null: now
  Record about = {};

  void put(Record::What what, int flags = 0) const {
    if (timeline == nullptr) return;
    Record record = about;
    record.what = what;
    record.flags = static_cast<std::uint8_t>(flags);
    if (stream != nullptr) {
      stream->put(record);
    } else {
      timeline->put(record);
    }
  }
  void begin(Record::What what) const { put(what); }
  void end(Record::What what) const { put(what, Record::kEnd); }
};

/// What a batch does while the scope lasts.
class ActivityScope {
 public:
  ActivityScope(const BatchTrace& trace, Record::What what) : trace_(trace), what_(what) {
    trace_.begin(what_);
  }
  ~ActivityScope() { trace_.end(what_); }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 protected:
  BatchTrace trace_;

 private:
  const Record::What what_;
};

}  // namespace dabke::timeline

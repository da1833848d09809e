// The timeline of one rank: what happened to its tensors and batches, and when.
//
// Any thread records into a bounded lock-free queue. A writer thread sleeps until the queue has records, and
// writes them. It writes a file of this rank's records (record_file_writer.h). On rank 0 it may write a
// Chrome trace instead, with the event names that Horovod's users know (trace_writer.h).
//
// The records of a tensor: submit, on the submitting thread; ready, when rank 0 receives that; order, when it
// joins a batch; done or error. The records of a batch: queue, wait for data, allocate, pack, run, unpack,
// each with a begin and an end.
//
// A record that finds the queue full is dropped, and no thread waits. A timeline with a marked gap is worth
// more than a training step that the timeline has slowed down. The file shows where records are missing, and
// how many.
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
    /// A file of records gets suffix_of(origin). A file in Horovod's form gets ".epoch2" in a later epoch of
    /// an elastic job.
    std::string path;
    bool mark_cycles = false;
    /// If set, open() unlinks a file that is at the path. Programs that have it open keep its content.
    bool begins_new_file = false;
    TimelineFormat format = TimelineFormat::horovod;  // not automatic
    TimelineOrigin origin = {};
    /// The capacity of the queue: 64 bytes a record, emptied every 20 ms while records come.
    std::size_t queue_records = std::size_t{1} << 18;
    /// Called once, on the writer's thread, when writing or closing fails. Later records are discarded.
    std::function<void(const Status&)> on_error = {};
    /// The largest size of the file; 0 for no limit. Records that have no room are left out and counted as
    /// lost.
    std::uint64_t max_bytes = 0;
    /// Called on the writer's thread when the file comes near to `max_bytes`, unless nears_limit() has
    /// already returned true. The timeline does nothing else then.
    std::function<void()> on_full = {};
    /// Called once, on the writer's thread, when the file is closed, with the Status that close() returns.
    /// close() waits for this call.
    std::function<void(const Status&)> on_closed = {};
  };

  /// Opens the file and starts the writer; an error names the path and why it cannot be written.
  static Result<std::unique_ptr<Timeline>> open(Options options);
  /// Returns the error that open() would return now because the file cannot be written. Changes nothing.
  static Status check(const Options& options);
  virtual ~Timeline() = default;  // closes

  // ---- from any thread
  /// Returns the id of a tensor's name; the same name gives the same id. Searches under a lock, so keep the
  /// id.
  TensorId tensor(std::string_view name) { return number_of(NameKind::tensor, name); }
  /// Returns the number of the name of a backend, an algorithm or a run; 0 for an empty name.
  std::uint16_t text(std::string_view text) {
    return text.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(number_of(NameKind::text, text));
  }

  /// A record without a time gets the present time. A record without a thread gets the calling thread.
  virtual void put(Record record) noexcept = 0;

  /// `set_rank` is Record::kNobody if there is none. `flags` are kFirst and kLast.
  void ready(TensorId tensor, CollectiveKind kind, ProcessSetId set, std::uint32_t set_rank, int flags) {
    put({.name = tensor,
         .process_set = set,
         .number = set_rank,
         .what = Record::What::ready,
         .kind = kind,
         .flags = static_cast<std::uint8_t>(flags)});
  }
  /// Records that a tensor is done. `about` holds the other fields.
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
  /// Every begin needs an end on the same thread.
  void begin_span(std::string_view name) {
    put({.name = number_of(NameKind::span, name), .what = Record::What::span});
  }
  void end_span() { put({.what = Record::What::span, .flags = Record::kEnd}); }
  void begin_wait() { put({.what = Record::What::wait}); }
  void end_wait() { put({.what = Record::What::wait, .flags = Record::kEnd}); }
  void mark_step(std::uint64_t step) { put({.bytes = step, .what = Record::What::step}); }
  /// Records that the rank leaves its epoch of an elastic job.
  void leave(const Status& cause) {
    Record record{.bytes = static_cast<std::uint64_t>(cause.code()), .what = Record::What::leave};
    if (!cause.is_ok()) record.number = number_of(NameKind::error, cause.message());
    put(record);
  }

  /// Count the batches that are ordered and have not ended; end() gives these time to end.
  virtual void batch_ordered() = 0;
  virtual void batch_ended() = 0;

  /// Returns true, once, if all that was recorded comes near to `max_bytes`, written or not. It is then time
  /// to end the timeline.
  virtual bool nears_limit() = 0;

  /// Ends the timeline without waiting. The writer's thread gives ordered batches a moment to end, writes
  /// everything that was recorded by then, and closes the file.
  virtual void end() = 0;
  /// Writes everything recorded so far, and closes the file. Later records are dropped. Returns the first
  /// error of writing since open(), such as a full disk, with path and cause. Every later call returns the
  /// same.
  virtual Status close() = 0;
  /// True if close() will not wait.
  virtual bool has_ended() const = 0;

 protected:
  virtual std::uint32_t number_of(NameKind kind, std::string_view name) = 0;
  virtual std::uint32_t shape_number(const Shape& shape, TensorId tensor) = 0;
};

/// Records the work of a device's stream, with the times at which the stream reaches it.
class StreamRecorder {
 public:
  virtual ~StreamRecorder() = default;
  /// The time of `record` is when the stream has finished all work that it has been given until now.
  virtual void put(const Record& record) noexcept = 0;
};

/// The timeline that a batch is recorded in, and the fields that all of its records share.
struct BatchTrace {
  Timeline* timeline = nullptr;  // null if the timeline is off
  // Set for a batch on a device: a record gets the time at which the stream reaches it. Null for the present
  // time.
  StreamRecorder* stream = nullptr;
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

/// Records the begin and the end of an activity of a batch, when the scope begins and ends.
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

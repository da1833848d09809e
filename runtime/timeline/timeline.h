// The timeline of one rank as a Chrome trace, with the event names that Horovod's users know.
//
// Any thread records into a bounded lock-free queue; a writer thread of its own sleeps until there is
// something, and writes. The file is a JSON array that is valid after close() and readable up to the last
// flush when the process is killed (the trace event format allows the closing bracket to be missing).
//
// One tensor is one "process" of the trace. Its life: negotiate_start,
// rank_ready..., negotiate_end; then op_start, any number of activity_start /
// activity_end pairs (QUEUE, MEMCPY_IN_FUSION_BUFFER, GLOO_ALLREDUCE, ...), op_end.
//
// A record that finds the queue full is dropped, and nobody waits: a trace with a marked
// gap is worth more than a training step that the trace itself made slow. Gaps are
// events named RECORDS_LOST, and the last event of the file says how many records were
// lost in all. Begin and end stay properly nested whatever was dropped (trace_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"

namespace dabke {

class Timeline {
 public:
  using TensorId = std::uint32_t;

  struct Options {
    std::string path;
    bool mark_cycles = false;
    std::size_t queue_records = std::size_t{1}
                                << 18;  // 64 bytes each; emptied every 20 ms while records come
    /// Called once, on the writer's thread, when writing fails: from then on records are thrown away.
    std::function<void(const Status&)> on_error = {};
  };

  /// Opens the file and starts the writer; an error names the path and why it cannot be written.
  static Result<std::unique_ptr<Timeline>> open(Options options);
  virtual ~Timeline() = default;  // closes

  /// The id of a tensor's row, which is its pid in the file; the same name gives the same id. A look-up under
  /// a lock: keep the id. Like all that follows, from any thread.
  virtual TensorId tensor(std::string_view name) = 0;

  virtual void negotiate_start(TensorId tensor, CollectiveKind kind) = 0;
  virtual void rank_ready(TensorId tensor, int set_rank) = 0;
  virtual void negotiate_end(TensorId tensor) = 0;
  virtual void op_start(std::span<const TensorId> tensors, CollectiveKind kind) = 0;
  /// `activity` is a string literal: only the pointer is kept.
  virtual void activity_start(std::span<const TensorId> tensors, const char* activity) = 0;
  virtual void activity_end(std::span<const TensorId> tensors) = 0;
  virtual void op_end(TensorId tensor, DType dtype, const Shape& shape) = 0;
  /// The operation ended with an error.
  virtual void op_error(TensorId tensor, const Status& status) = 0;
  virtual void mark_cycle() = 0;

  /// Writes everything recorded so far, ends the array and closes the file.
  /// Later records are dropped. Returns the first error of writing since open(),
  /// such as a full disk, with path and cause; so does every later call.
  virtual Status close() = 0;
};

/// An activity that ends with the scope. `timeline` may be null: then nothing happens.
class ActivityScope {
 public:
  ActivityScope(Timeline* timeline, std::span<const Timeline::TensorId> tensors, const char* activity)
      : timeline_(timeline), tensors_(tensors) {
    if (timeline_) timeline_->activity_start(tensors_, activity);
  }
  ~ActivityScope() {
    if (timeline_) timeline_->activity_end(tensors_);
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  Timeline* timeline_;
  std::span<const Timeline::TensorId> tensors_;
};

}  // namespace dabke

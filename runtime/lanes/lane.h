// A lane: batches of one device run in order, apart from the negotiation.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/lanes/run.h"
#include "runtime/reports/profile.h"

namespace dabke::lanes {

/// A lane that has had nothing to do for this long notifies its backends.
inline constexpr Duration kLaneIdleAfter = std::chrono::seconds(5);

/// The batch that a lane has been running the longest. Written by the thread that runs it, read by any
/// thread.
class LaneClock {
 public:
  struct Running {
    std::uint64_t order;
    TimePoint since;
  };
  void starts(std::uint64_t order, TimePoint now) {
    order_.store(order, std::memory_order_relaxed);
    since_ns_.store(std::chrono::nanoseconds(now.time_since_epoch()).count());
  }
  void ends() { since_ns_.store(0); }
  /// Nothing if none runs.
  std::optional<Running> running() const {
    const std::int64_t since = since_ns_.load();
    if (since == 0) return std::nullopt;
    return Running{order_.load(std::memory_order_relaxed), TimePoint(std::chrono::nanoseconds(since))};
  }

 private:
  std::atomic<std::uint64_t> order_{0};
  std::atomic<std::int64_t> since_ns_{0};
};

/// Receives the events of a lane, on the thread that runs the batch.
class LaneObserver {
 public:
  virtual ~LaneObserver() = default;
  /// Called when every tensor of the call has run. The observer owns the call from here.
  virtual void call_finished(std::unique_ptr<NegotiatedCall> call, const Status& status) = 0;
  /// Called behind the last call_finished() of a run.
  virtual void calls_finished() noexcept = 0;
  virtual void batch_starts(const Run& run) = 0;
  /// Called when a batch has run, before its calls are finished.
  virtual void batch_ran(const Run& run, const reports::BatchReport& batch, const Status& status) = 0;
  /// Called when a run is no longer outstanding. `has_room` is true if the lane is not busy now.
  virtual void run_ended(bool has_room) = 0;
  /// Called when the lane could not do its part, for lack of memory. Some calls are never reported as
  /// finished.
  virtual void lane_broke(Status cause) noexcept = 0;
};

class Lane {
 public:
  virtual ~Lane() = default;
  /// Queues the run behind all that was pushed before. Returns at once; the observer is notified of the end.
  virtual void push(std::unique_ptr<Run> run) = 0;
  /// The number of runs that have not ended yet.
  virtual std::size_t outstanding() const = 0;
  /// True if so many runs have not ended that another would only take tensors out of the next fused batch.
  virtual bool is_busy() const = 0;
  virtual std::optional<LaneClock::Running> running() const = 0;
  /// May be called from any thread. Ends the current run and all queued runs with `cause`. Throws if there is
  /// no memory for a copy of the cause, and may then be called again with a shorter one.
  virtual void abort(const Status& cause) = 0;
  /// Runs what is queued, then ends the thread.
  virtual void stop() = 0;
};

}  // namespace dabke::lanes

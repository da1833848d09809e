// The timeline for the application's threads: it records their submits, their spans and
// the steps that they mark.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "runtime/call/request.h"
#include "runtime/timeline/recording/timeline.h"

namespace dabke::reports {

/// Any thread may use it. While no timeline is written, each call costs one load.
class ActiveTimeline {
 public:
  /// Sets the timeline that is written; null if none is.
  void set(std::shared_ptr<timeline::Timeline> timeline, TimelineFormat format);

  void submitted(const Request& request) {
    if (records_calls_.load(std::memory_order_relaxed)) record(request);
  }
  /// Returns null while no timeline records how long the application waits.
  std::shared_ptr<timeline::Timeline> of_waits() {
    return records_calls_.load(std::memory_order_relaxed) ? current() : nullptr;
  }
  /// Begins a span of the calling thread. It lies within the spans that the thread has begun and not ended.
  void begin_span(std::string_view name);
  /// Ends the span that the thread has begun last.
  ///   errors  invalid_argument if a timeline is written and the thread has not begun a span
  Status end_span();
  void mark_step(std::uint64_t step) {
    note_step(step);
    if (const auto timeline = current()) timeline->mark_step(step);
    if (watches_steps_.load(std::memory_order_relaxed)) report_step(step);
  }
  /// The steps that were marked, even while no timeline was written.
  struct Steps {
    std::uint64_t count = 0, last = 0, took_us = 0;
  };
  Steps steps() const {
    return {marks_.load(std::memory_order_relaxed), last_step_.load(std::memory_order_relaxed),
            took_us_.load(std::memory_order_relaxed)};
  }
  /// Calls `on_step` for every step that is marked, on the thread that marks it, one at a time. An empty
  /// `on_step` ends this: when the function returns, no call is running any more.
  void watch_steps(std::function<void(std::uint64_t step)> on_step);

 private:
  void record(const Request& request);
  void report_step(std::uint64_t step);
  void note_step(std::uint64_t step);
  std::shared_ptr<timeline::Timeline> current() {
    if (!is_on_.load(std::memory_order_relaxed)) return nullptr;
    const std::lock_guard lock(mutex_);
    return timeline_;
  }

  std::atomic<std::uint64_t> marks_{0}, last_step_{0}, took_us_{0};
  std::atomic<std::int64_t> marked_at_{0};  // nanoseconds of the clock; 0 before the first mark
  std::atomic<bool> is_on_{false};
  std::atomic<bool> records_calls_{false};
  std::mutex mutex_;
  std::shared_ptr<timeline::Timeline> timeline_;
  std::atomic<bool> watches_steps_{false};
  std::mutex steps_;
  std::function<void(std::uint64_t)> on_step_;
};

/// Records a wait of the calling thread for tensors while the scope lasts.
class WaitScope {
 public:
  explicit WaitScope(ActiveTimeline& timeline) : timeline_(timeline.of_waits()) {
    if (timeline_) timeline_->begin_wait();
  }
  ~WaitScope() {
    if (timeline_) timeline_->end_wait();
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  const std::shared_ptr<timeline::Timeline> timeline_;
};

}  // namespace dabke::reports

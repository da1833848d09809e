// The timeline as the application's threads see it: what they submit, their spans, and the steps that they mark.
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

/// May be used from any thread. While no timeline is written, each call is a load.
class ActiveTimeline {
 public:
  /// Null: none is written any more.
  void set(std::shared_ptr<timeline::Timeline> timeline, TimelineFormat format);

  void submitted(const Request& request) {
    if (records_calls_.load(std::memory_order_relaxed)) record(request);
  }
  /// Null while nobody wants to know how long the application waits.
  std::shared_ptr<timeline::Timeline> of_waits() {
    return records_calls_.load(std::memory_order_relaxed) ? current() : nullptr;
  }
  /// A span of the calling thread, within those that it has begun.
  void begin_span(std::string_view name);
  /// Ends the last that it has begun.
  ///   errors  invalid_argument while a timeline is written, where it has begun none
  Status end_span();
  void mark_step(std::uint64_t step) {
    note_step(step);
    if (const auto timeline = current()) timeline->mark_step(step);
    if (watches_steps_.load(std::memory_order_relaxed)) report_step(step);
  }
  /// The steps that were marked, whether a timeline is written or not.
  struct Steps {
    std::uint64_t count = 0, last = 0, took_us = 0;
  };
  Steps steps() const {
    return {marks_.load(std::memory_order_relaxed), last_step_.load(std::memory_order_relaxed),
            took_us_.load(std::memory_order_relaxed)};
  }
  /// `on_step` hears of every step that is marked, on the thread that marks it, one at a time. When this comes back
  /// with an empty one nobody is told any more.
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
  std::atomic<std::int64_t> marked_at_{0};  // on the clock's own scale, ns
  std::atomic<bool> is_on_{false};
  std::atomic<bool> records_calls_{false};
  std::mutex mutex_;
  std::shared_ptr<timeline::Timeline> timeline_;
  std::atomic<bool> watches_steps_{false};
  std::mutex steps_;
  std::function<void(std::uint64_t)> on_step_;
};

/// The calling thread waits for tensors to end while the scope lasts.
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

#include "runtime/reports/active_timeline.h"

#include <algorithm>
#include <utility>

#include "runtime/base/clock.h"

namespace dabke::reports {
namespace {

/// The spans that the calling thread has begun and not ended, recorded or not. A timeline may
/// start or stop within a span.
struct OpenSpans {
  std::uint64_t open = 0;
  std::uint64_t recorded = 0;  // how many of the innermost are recorded in the timeline `in`
  std::weak_ptr<timeline::Timeline> in;

  static OpenSpans& of_thread() {
    thread_local OpenSpans spans;
    return spans;
  }
  std::uint64_t& recorded_in(const std::shared_ptr<timeline::Timeline>& timeline) {
    const bool is_same = !in.owner_before(timeline) && !timeline.owner_before(in);
    if (!is_same) {
      recorded = 0;
      in = timeline;
    }
    return recorded;
  }
};

}  // namespace

void ActiveTimeline::set(std::shared_ptr<timeline::Timeline> timeline, TimelineFormat format) {
  const bool is_on = timeline != nullptr;
  {
    const std::lock_guard lock(mutex_);
    timeline_.swap(timeline);
  }
  is_on_ = is_on;
  records_calls_ = is_on && format == TimelineFormat::records;
}

void ActiveTimeline::watch_steps(std::function<void(std::uint64_t step)> on_step) {
  const std::lock_guard lock(steps_);
  on_step_ = std::move(on_step);
  watches_steps_ = on_step_ != nullptr;
}

/// Threads that mark at the same time may mix up their times, but none waits.
void ActiveTimeline::note_step(std::uint64_t step) {
  const std::int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  const std::int64_t before = marked_at_.exchange(now, std::memory_order_relaxed);
  took_us_.store(before == 0 ? 0 : static_cast<std::uint64_t>(now - before) / 1000,
                 std::memory_order_relaxed);
  last_step_.store(step, std::memory_order_relaxed);
  marks_.fetch_add(1, std::memory_order_relaxed);
}

void ActiveTimeline::report_step(std::uint64_t step) {
  const std::lock_guard lock(steps_);
  if (on_step_) on_step_(step);
}

void ActiveTimeline::record(const Request& request) {
  const auto timeline = current();
  if (!timeline) return;
  timeline::Record record{
      .process_set = request.process_set, .what = timeline::Record::What::submit, .kind = request.kind};
  if (request.tensors.empty()) {
    record.name = timeline->tensor(request.name);
    timeline->put(record);
  }
  for (const TensorSpec& tensor : request.tensors) {
    record.name = timeline->tensor(tensor.name);
    record.dtype = tensor.dtype;
    record.bytes = tensor.size_bytes();
    timeline->put(record);
  }
}

void ActiveTimeline::begin_span(std::string_view name) {
  OpenSpans& spans = OpenSpans::of_thread();
  if (const auto timeline = current()) {
    timeline->begin_span(name);
    ++spans.recorded_in(timeline);
  }
  ++spans.open;
}

Status ActiveTimeline::end_span() {
  OpenSpans& spans = OpenSpans::of_thread();
  const auto timeline = current();
  if (spans.open == 0) {
    if (!timeline) return {};
    return {Code::invalid_argument, "the calling thread has no open span to end"};
  }
  --spans.open;
  if (!timeline) return {};
  if (std::uint64_t& recorded = spans.recorded_in(timeline); recorded > 0) {
    --recorded;
    timeline->end_span();
  }
  return {};
}

}  // namespace dabke::reports

#include "runtime/lanes/run_ending.h"

#include "runtime/base/threads/exceptions.h"

namespace dabke::lanes {
namespace {

/// Tensors that were refused have ended already.
void note_in_timeline(const Run& run, std::string_view backend, const Status& status,
                      const Refusals& refused) {
  timeline::Timeline& timeline = *run.timeline;
  const std::uint16_t backend_text = timeline.text(backend);
  const std::int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  for (std::size_t i = 0; i < run.tensors.size(); ++i) {
    if (!refused.empty() && !refused[i].is_ok()) continue;
    timeline::Record record = run.records[i];
    record.time_ns = now;
    record.thread = 0;
    record.backend = backend_text;
    if (status.is_ok()) {
      timeline.done(record, run.tensors[i].tensor->shape);
    } else {
      timeline.error(record, status);
    }
  }
  timeline.batch_ended();
}

/// If an exception ends the function, leaves the remaining calls to the owner of the coordinator's table.
struct LeftBehind {
  ~LeftBehind() {
    for (EndedCall& one : ended) (void)one.call.release();
  }
  std::vector<EndedCall>& ended;
};

}  // namespace

std::vector<EndedCall> end_run(const Run& run, const reports::BatchReport& report, const Status& status,
                               const Refusals& refused, LaneObserver& observer) {
  if (run.timeline) note_in_timeline(run, report.backend, status, refused);
  observer.batch_ran(run, report, status);
  std::vector<EndedCall> ended;
  ended.reserve(run.tensors.size());
  for (std::size_t i = 0; i < run.tensors.size(); ++i) {
    NegotiatedCall* const call = run.tensors[i].call;
    if (call == nullptr) continue;
    if (!refused.empty() && !refused[i].is_ok()) call->refused = copy_of(refused[i]);
    if (!status.is_ok() && call->first_error.is_ok()) call->first_error = copy_of(status);
    if (--call->tensors_left == 0)
      ended.push_back({std::unique_ptr<NegotiatedCall>(call), std::move(call->first_error)});
  }
  return ended;
}

/// Calls with a waiting thread are reported last: the woken thread would take the core, and then sleep again
/// on the next call of the batch.
void report_ended(std::vector<EndedCall>& ended, LaneObserver& observer) {
  const LeftBehind left{ended};
  std::vector<EndedCall*> awaited;
  for (EndedCall& one : ended) {
    if (one.call->is_awaited()) {
      awaited.push_back(&one);
    } else {
      observer.call_finished(std::move(one.call), one.status);
    }
  }
  for (EndedCall* const one : awaited) observer.call_finished(std::move(one->call), one->status);
  observer.calls_finished();
}

}  // namespace dabke::lanes

#include "runtime/core/job_reports.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/text/call_name.h"

namespace dabke::core {
namespace {

/// The time that a failure waits until its dump is written.
constexpr Duration kDumpTime = std::chrono::seconds(1);
/// The time between two beats: an earlier comparison has no new result.
constexpr Duration kBetweenClocks = std::chrono::seconds(1);

}  // namespace

JobReports::JobReports(Parts parts, Deadlines& deadlines, const control::ControlChannel& channel,
                       negotiation::Negotiator& negotiator, const OutstandingCalls& calls,
                       lanes::Lanes& lanes)
    : parts_(std::move(parts)),
      channel_(channel),
      negotiator_(negotiator),
      calls_(calls),
      lanes_(lanes),
      next_run_check_(deadlines, [this](TimePoint now) { look_for_long_runs(now); }),
      next_clock_(deadlines, [this](TimePoint now) { compare_clocks(now); }) {
  note_timeline();
}

void JobReports::batch_starts(const lanes::Run& run) {
  parts_.recorder.record(diagnosis::FlightEvent::What::started, run.kind, run.process_set->id,
                         run.batch.order, run.tensors.size(), 0, run.tensors.front().tensor->name);
}

void JobReports::batch_ran(const lanes::Run& run, const reports::BatchReport& batch, const Status& status) {
  parts_.recorder.record(
      status.is_ok() ? diagnosis::FlightEvent::What::finished : diagnosis::FlightEvent::What::failed,
      run.kind, run.process_set->id, run.batch.order, run.tensors.size(), batch.size_bytes,
      run.tensors.front().tensor->name);
  ++parts_.statistics.batches;
  parts_.statistics.bytes += batch.size_bytes;
  parts_.statistics.execution_seconds += batch.seconds;
  parts_.profile.ran(batch);
}

void JobReports::submitted(const Request& request, TimePoint at) {
  last_submit_ = std::max(last_submit_, at);
  parts_.recorder.record(diagnosis::FlightEvent::What::submitted, request.kind, request.process_set,
                         ++submitted_, request.tensors.size(), request.size_bytes(), request.name, at);
}

void JobReports::refused(const Request& request, const Status& status) {
  if (status.is_ok() || !timeline() || !parts_.config.records_timeline()) return;
  for (const TensorSpec& tensor : request.tensors) {
    timeline()->error({.name = timeline()->tensor(tensor.name),
                       .process_set = request.process_set,
                       .kind = request.kind,
                       .dtype = tensor.dtype},
                      status);
  }
}

void JobReports::ordered(const negotiation::ExecuteAction& action, TimePoint now) {
  if (!next_run_check_.is_set() && !parts_.config.stall_check_disable)
    next_run_check_.set(now + seconds_to_duration(parts_.config.stall_check_time));
  if (timeline()) timeline()->mark_cycle();
  std::map<CollectiveKind, reports::Profile::Wait> waits;
  for (const negotiation::OrderedRequest& ordered : action.requests) {
    const Request& agreed = *ordered.agreed;
    parts_.recorder.record(diagnosis::FlightEvent::What::ordered, agreed.kind, agreed.process_set,
                           ordered.number, agreed.tensors.size(), agreed.size_bytes(), agreed.name, now);
    NegotiatedCall* const call = calls_.find(ordered.token);
    if (call == nullptr) continue;
    reports::Profile::Wait& wait = waits[agreed.kind];
    for (const OperationRef& operation : call->operations()) {
      operation->ordered_at = now;
      const double seconds = std::chrono::duration<double>(now - operation->submitted_at).count();
      wait.add({1, seconds, seconds});
    }
  }
  for (const auto& [kind, wait] : waits) {
    parts_.statistics.negotiation_seconds += wait.seconds;
    parts_.profile.waited(kind, wait);
  }
}

void JobReports::completed(std::size_t tensors, bool is_well) {
  parts_.statistics.tensors_completed += tensors;
  if (!is_well) parts_.statistics.tensors_failed += tensors;
}

void JobReports::warned(const negotiation::WarnAction& warning) {
  const bool is_reported_elsewhere = parts_.reporter.is_gathered() && !warning.brief.empty();
  parts_.log.warning("{}", is_reported_elsewhere ? warning.brief : warning.text);
  parts_.recorder.note(warning.text);
}

void JobReports::failed(const Status& cause) {
  const std::string& text = cause.message();
  parts_.log.error("{}", parts_.reporter.is_gathered() ? text.substr(0, text.find('\n')) : text);
}

void JobReports::change_timeline(const wire::TimelineChange& change) {
  take_readiness();  // for the current timeline
  const timeline::Timeline* const before = timeline().get();
  if (const auto merging = parts_.timeline.follow(change)) negotiator_.hold_timeline(*merging);
  if (timeline().get() != before) note_timeline();
}

void JobReports::stop_timeline_at_limit(TimePoint now) {
  if (!timeline()) return;
  if (const auto from = parts_.timeline.stops_at_limit()) negotiator_.change_timeline({}, *from, now);
}

/// Called when the timeline has started or stopped.
void JobReports::note_timeline() {
  negotiator_.record_readiness(timeline() ? ++timelines_ : 0);
  const auto& hosts = parts_.hosts;
  const negotiation::NegotiationState& state = negotiator_.state();
  const bool compares =
      timeline() && parts_.config.records_timeline() && !state.is_root() &&
      hosts[static_cast<std::size_t>(state.parent())] != hosts[static_cast<std::size_t>(state.options.rank)];
  next_clock_.set(compares ? Clock::now() : kNever);
}

void JobReports::compare_clocks(TimePoint now) {
  next_clock_.set(now + kBetweenClocks);
  const std::optional<control::ClockOffset> parent = channel_.clock_of(negotiator_.state().parent(), now);
  if (!parent || !timeline()) return;
  const auto nanoseconds = [](Duration time) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count());
  };
  timeline()->put({.time_ns = std::chrono::nanoseconds(now.time_since_epoch()).count(),
                   .batch = nanoseconds(parent->error),
                   .bytes = nanoseconds(parent->ahead),
                   .number = static_cast<std::uint32_t>(negotiator_.state().parent()),
                   .what = timeline::Record::What::clock});
}

void JobReports::take_readiness() {
  for (const negotiation::Negotiator::Readiness& ready : negotiator_.take_readiness()) {
    if (!timeline()) continue;
    timeline()->ready(
        timeline()->tensor(ready.name), ready.kind, ready.process_set,
        static_cast<std::uint32_t>(ready.set_rank),
        (ready.first ? timeline::Record::kFirst : 0) | (ready.last ? timeline::Record::kLast : 0));
  }
}

void JobReports::take_profile() {
  for (const negotiation::Negotiator::Lateness& late : negotiator_.take_lateness()) {
    parts_.profile.late(late.rank, late.kind, std::chrono::duration<double>(late.by).count());
  }
  parts_.profile.cache(negotiator_.cache_counts().hits, negotiator_.cache_counts().misses);
}

diagnosis::Dump JobReports::describe(std::string reason, std::uint64_t incident,
                                     const negotiation::Snapshot& snapshot, TimePoint now) const {
  constexpr std::string_view kStates[] = {"announced", "kept back", "queued"};
  diagnosis::Dump dump = parts_.reporter.begin(std::move(reason), incident);
  dump.last_order = snapshot.last_order;
  dump.submitted = submitted_;
  dump.process_sets = snapshot.sets;
  for (const negotiation::Snapshot::Pending& pending : snapshot.pending) {
    const Duration age = now - calls_.find(pending.token)->first().submitted_at;
    dump.pending.push_back({pending.request->name, std::string(name_of(pending.request->kind)),
                            pending.request->process_set, pending.request->describe(),
                            std::chrono::duration<double>(age).count(),
                            std::string(kStates[static_cast<std::size_t>(pending.state)])});
  }
  for (const negotiation::Snapshot::Group& group : snapshot.groups) {
    dump.pending.push_back({group.name, std::string(name_of(group.kind)), group.process_set, group.members,
                            std::chrono::duration<double>(now - group.since).count(), "incomplete"});
  }
  return dump;
}

void JobReports::dump(const negotiation::DumpAction& action, TimePoint now) {
  const bool stalled = action.job_fails && negotiator_.cause().code() == Code::stalled;
  const auto why =
      action.job_fails && !stalled ? diagnosis::Reporter::Why::failure : diagnosis::Reporter::Why::hang;
  // Signals interrupt the sleeps of an application, so a warning sends none.
  using Stacks = diagnosis::Reporter::Stacks;
  const auto stacks = action.asked || stalled ? Stacks::signals
                      : action.job_fails      ? Stacks::none
                                              : Stacks::places;
  parts_.reporter.write(describe(action.reason, action.incident, action.snapshot, now), why, stacks);
  // Once the operations have failed, the process may end at any moment.
  if (action.job_fails) parts_.reporter.flush(kDumpTime);
}

RankFigures JobReports::figures(TimePoint now) const {
  constexpr Duration kIdle = std::chrono::seconds(5);
  constexpr std::size_t kMostText = 120;
  const reports::ActiveTimeline::Steps steps = parts_.timeline.steps();
  const reports::Statistics& counts = parts_.statistics;
  RankFigures figures{.rank = negotiator_.state().options.rank,
                      .steps = steps.count,
                      .step = steps.last,
                      .step_us = steps.took_us,
                      .bytes = counts.bytes,
                      .batches = counts.batches,
                      .pending = counts.tensors_submitted -
                                 std::min<std::uint64_t>(counts.tensors_submitted, counts.tensors_completed)};
  TimePoint since = last_submit_;
  const negotiation::Snapshot snapshot = negotiator_.snapshot();
  if (const auto running = running_batch()) {
    figures.state = RankFigures::State::communicates;
    figures.what = running->what;
    since = running->since;
  } else if (!snapshot.pending.empty()) {
    figures.state = RankFigures::State::waits;
    since = now;
    for (const negotiation::Snapshot::Pending& pending : snapshot.pending) {
      const TimePoint at = calls_.find(pending.token)->first().submitted_at;
      if (at > since) continue;
      since = at;
      figures.what = name_of_call(*pending.request);
    }
  } else {
    figures.state = now - last_submit_ < kIdle ? RankFigures::State::computes : RankFigures::State::idle;
  }
  if (since != TimePoint())
    figures.state_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(
        0, std::chrono::duration_cast<std::chrono::milliseconds>(now - since).count()));
  if (figures.what.size() > kMostText) figures.what = figures.what.substr(0, kMostText) + "...";
  return figures;
}

diagnosis::JobFigures JobReports::job_figures(TimePoint now) const {
  const auto late = parts_.profile.lateness();
  diagnosis::JobFigures job{.size = static_cast<int>(parts_.hosts.size()),
                            .time_s = std::chrono::duration<double>(now.time_since_epoch()).count()};
  for (const auto& [rank, answer] : negotiator_.figures()) {
    const auto caused = late.find(rank);
    job.ranks.push_back({.figures = answer.figures,
                         .host = parts_.hosts[static_cast<std::size_t>(rank)],
                         .caused_s = caused == late.end() ? 0 : caused->second.seconds,
                         .age_s = std::chrono::duration<double>(now - answer.at).count()});
  }
  return job;
}

void JobReports::give_places(std::function<void(std::string text)> answer, TimePoint now) {
  if (const auto running = running_batch()) negotiator_.note_running(*running, now);
  parts_.reporter.take_places(std::move(answer));
}

/// Returns the batch that a lane has been running the longest; nothing if none runs.
std::optional<negotiation::Negotiator::Running> JobReports::running_batch() const {
  const auto running = lanes_.running();
  if (!running) return std::nullopt;
  const auto events = parts_.recorder.events();
  const auto batch =
      std::ranges::find_if(events.rbegin(), events.rend(), [&](const diagnosis::FlightEvent& event) {
        return event.what == diagnosis::FlightEvent::What::started && event.number == running->order;
      });
  if (batch == events.rend()) return std::nullopt;
  const std::string more = batch->tensors > 1 ? fmt::format(" and {} more", batch->tensors - 1) : "";
  return negotiation::Negotiator::Running{batch->number, batch->process_set,
                                          name_of_call(batch->kind, batch->name) + more, running->since};
}

/// Finds batches that hang after they were agreed on: a rank may stop in the middle of one, or the network
/// may.
void JobReports::look_for_long_runs(TimePoint now) {
  if (lanes_.outstanding() == 0) return;
  // The rank that was to end the job has not; it may be stopped.
  constexpr Duration kAgain = std::chrono::seconds(5);
  const Duration warning = seconds_to_duration(parts_.config.stall_check_time);
  const Duration shutdown = seconds_to_duration(parts_.config.stall_shutdown_time);
  const Duration patience = shutdown > Duration::zero() ? std::min(warning, shutdown) : warning;
  const auto running = running_batch();
  const Duration age = running ? now - running->since : Duration::zero();
  if (age < patience) {
    next_run_check_.set(now + (patience - age));
    return;
  }
  next_run_check_.set(now + warning);
  if (shutdown > Duration::zero()) next_run_check_.set_by(now + (age < shutdown ? shutdown - age : kAgain));
  negotiator_.note_long_run(*running, now);
}

}  // namespace dabke::core

// What the coordinator tells of the job: dumps, runs that take too long, the timeline and the profile.
#include <algorithm>

#include <fmt/format.h>

#include "runtime/core/coordinator.h"

namespace dabke {
namespace {

/// How long a failure waits for its dump to be written.
constexpr Duration kDumpTime = std::chrono::seconds(1);

}  // namespace

void Coordinator::ask_for_dumps(std::string reason) { post(AskForDumps{std::move(reason)}); }

Dump Coordinator::describe(std::string reason, Duration limit) {
  const auto answer = std::make_shared<std::promise<Dump>>();
  auto described = answer->get_future();
  if (post(Describe{reason, answer}) && described.wait_for(limit) == std::future_status::ready) {
    try {
      return described.get();
    } catch (const std::future_error&) {
      // The job has just ended for want of memory.
    }
  }
  return reporter_.begin(
      std::move(reason) + " (the coordinator thread does not answer: what it waits for is not known)", 0);
}

Dump Coordinator::describe(std::string reason, std::uint64_t incident, const Snapshot& snapshot,
                           TimePoint now) const {
  constexpr std::string_view kStates[] = {"announced", "kept back", "queued"};
  Dump dump = reporter_.begin(std::move(reason), incident);
  dump.last_order = snapshot.last_order;
  dump.submitted = submitted_;
  dump.process_sets = snapshot.sets;
  for (const Snapshot::Pending& pending : snapshot.pending) {
    const Duration age = now - unit_of(pending.token)->first().submitted_at;
    dump.pending.push_back({pending.request->name, std::string(name_of(pending.request->kind)),
                            pending.request->process_set, pending.request->describe(),
                            std::chrono::duration<double>(age).count(),
                            std::string(kStates[static_cast<std::size_t>(pending.state)])});
  }
  for (const Snapshot::Group& group : snapshot.groups) {
    dump.pending.push_back({group.name, std::string(name_of(group.kind)), group.process_set, group.members,
                            std::chrono::duration<double>(now - group.since).count(), "incomplete"});
  }
  return dump;
}

void Coordinator::dump(const DumpAction& action, TimePoint now) {
  const bool stalled = action.job_fails && machine_.cause().code() == Code::stalled;
  const auto where = !action.job_fails ? Reporter::Where::usual
                     : stalled         ? Reporter::Where::launcher
                                       : Reporter::Where::if_wanted;
  // Signals end the sleeps of an application, so a warning sends none.
  using Stacks = Reporter::Stacks;
  const auto stacks = action.asked || stalled ? Stacks::signals
                      : action.job_fails      ? Stacks::none
                                              : Stacks::places;
  reporter_.write(describe(action.reason, action.incident, action.snapshot, now), where, stacks);
  // Once the operations have failed the process may end at any moment.
  if (action.job_fails) reporter_.flush(kDumpTime);
}

/// The batch in the lane; nothing when there is none.
std::optional<Machine::Running> Coordinator::running_batch() const {
  const TimePoint since{std::chrono::nanoseconds(running_since_ns_.load())};
  if (since == TimePoint{}) return std::nullopt;
  const auto events = recorder_.events();
  const auto batch =
      std::ranges::find(events.rbegin(), events.rend(), FlightEvent::What::started, &FlightEvent::what);
  if (batch == events.rend()) return std::nullopt;
  const std::string more = batch->tensors > 1 ? fmt::format(" and {} more", batch->tensors - 1) : "";
  return Machine::Running{
      batch->number, batch->process_set,
      fmt::format("{} '{}'{} (order {})", name_of(batch->kind), batch->name, more, batch->number), since};
}

/// What was agreed on may hang as well: a rank that is stopped in the middle of it, or a network that is.
void Coordinator::look_for_long_runs(TimePoint now) {
  if (lane_.outstanding() == 0 || config_.stall_check_disable) {
    next_run_check_ = kNever;
    return;
  }
  if (now < next_run_check_) return;
  constexpr Duration kAgain = std::chrono::seconds(5);  // who was to end the job has not: it may stand still
  const Duration warning = seconds_to_duration(config_.stall_check_time);
  const Duration shutdown = seconds_to_duration(config_.stall_shutdown_time);
  const Duration patience = shutdown > Duration::zero() ? std::min(warning, shutdown) : warning;
  const auto running = running_batch();
  const Duration age = running ? now - running->since : Duration::zero();
  if (age < patience) {
    next_run_check_ = now + (patience - age);
    return;
  }
  next_run_check_ = now + warning;
  if (shutdown > Duration::zero())
    next_run_check_ = std::min(next_run_check_, now + (age < shutdown ? shutdown - age : kAgain));
  machine_.note_long_run(*running, now);
}

void Coordinator::record_readiness() {
  for (const Machine::Readiness& ready : machine_.take_readiness()) {
    if (!timeline_) continue;
    const Timeline::TensorId tensor = timeline_->tensor(ready.name);
    if (ready.first) timeline_->negotiate_start(tensor, ready.kind);
    timeline_->rank_ready(tensor, ready.set_rank);
    if (ready.last) timeline_->negotiate_end(tensor);
  }
}

void Coordinator::record_profile() {
  for (const Machine::Lateness& late : machine_.take_lateness()) {
    profile_.late(late.rank, late.kind, std::chrono::duration<double>(late.by).count());
  }
  profile_.cache(machine_.cache_counts().hits, machine_.cache_counts().misses);
}

}  // namespace dabke

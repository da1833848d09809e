#include "launcher/job/job.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "launcher/verdict/outcome.h"
#include "runtime/base/terminal.h"

namespace dabke::launcher {
namespace {

/// The pause between two comparisons of the shown summary with the present one.
constexpr std::chrono::seconds kSummaryPause{1};

}  // namespace

Job::Job(Console& console, int signals, AgentStarter starter, Settings settings)
    : settings_(std::move(settings)),
      console_(console),
      log_(console),
      output_(console, log_,
              [this](Rank speaker, std::string_view line) { failure_.take_error_line(speaker, line); }),
      agents_(std::move(starter), {settings_.start_timeout_s, settings_.store, settings_.is_elastic}, log_,
              ranks_, *this),
      ending_(agents_, settings_.grace),
      failures_(
          failure_, log_, [this] { return members_ ? members_->current_ranks() : ranks_; }, agents_, ending_),
      terminals_(settings_.gives_terminals, ranks_, output_),
      signals_(signals, {settings_.verbose, settings_.grace, settings_.grace_after_term},
               {log_, output_, agents_, ending_, failure_, terminals_, [this] { return is_over(); }}) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // for the supervisors of a killed agent
}

void Job::add_rank(const RankPlacement& placement, AgentLink& agent, RankOutputs outputs, OutputStyle style) {
  ranks_.add(placement, &agent);
  output_.add(placement.rank, std::move(outputs), style);
}

void Job::watch_reports(ReportGatherer& gatherer) {
  gatherer_ = &gatherer;
  failures_.watch(gatherer);
}

void Job::let_members_change(JobMembers::Settings members, Meetings& meetings, AgentLink& local) {
  members_.emplace(std::move(members), meetings, local,
                   JobMembers::Job{log_, ranks_, output_, agents_, ending_});
}

int Job::run() {
  if (members_) members_->begin(Clock::now());
  if (members_ && settings_.shows_figures) summary_at_ = Clock::now();
  agents_.start();
  while (!is_over() || output_.is_waiting()) turn();
  console_.pin({});
  return agents_.refused_with() ? *agents_.refused_with() : conclude();
}

bool Job::is_over() const { return (!members_ || members_->is_over()) && !ranks_.are_any_left(); }

/// Prints the verdict. Returns the exit code.
int Job::conclude() {
  failures_.conclude(Clock::now());
  const Outcome outcome = this->outcome();
  if (is_reader_gone_) return 128 + SIGPIPE;
  if (outcome.first_failed_rank) output_.log_last_lines(*outcome.first_failed_rank);
  for (const std::string& line : outcome.lines) log_.log(line);
  if (outcome.exit_code != 0) failures_.log_dump_files("");
  // Checks again, after all later output, whether files of --output-filename lack something.
  const bool is_copy_lost = output_.log_lost_copies();
  while (output_.is_waiting()) turn();
  if (outcome.exit_code != 0) return outcome.exit_code;
  if (output_.is_dropped() && signals_.last()) return 128 + *signals_.last();
  return output_.is_lost() || output_.is_dropped() || is_copy_lost ? 1 : 0;
}

Outcome Job::outcome() const {
  if (members_ && !signals_.interrupted_by()) return members_->conclude();
  return launcher::conclude(explained_ends(), signals_.interrupted_by());
}

std::vector<RankEnd> Job::explained_ends() const {
  std::vector<RankEnd> ends = failure_.ends();
  for (RankEnd& end : ends) {
    if (is_failure(end)) end.last_lines = output_.last_lines(end.rank);
    if (end.kind == RankEnd::Kind::signalled) end.signal_sender = signals_.sender_of(end.value);
  }
  return ends;
}

void Job::turn() {
  std::vector<pollfd> entries;
  add_poll_entries(entries);
  if (::poll(entries.data(), entries.size(), poll_timeout_ms(next_deadline())) > 0) handle_entries(entries);
  check_time();
}

TimePoint Job::next_deadline() const {
  const TimePoint typed = input_ != nullptr ? input_->looks_again_at() : kNever;
  const TimePoint change = members_ ? members_->deadline() : kNever;
  return std::min({agents_.deadline(), output_.deadline(), failures_.deadline(), ending_.deadline(), typed,
                   change, summary_at_});
}

void Job::add_poll_entries(std::vector<pollfd>& entries) {
  entries.push_back({signals_.fd(), POLLIN, 0});
  if (gatherer_ != nullptr) entries.push_back({gatherer_->event(), POLLIN, 0});
  agents_.add_poll_entries(entries);
  if (input_carrier_) input_carrier_->add_poll_entries(entries);
  output_.add_poll_entries(entries);
  if (members_) members_->add_poll_entries(entries);
  if (input_ != nullptr) input_->add_poll_entries(entries);
  console_.add_poll_entries(entries);
}

void Job::handle_entries(const std::vector<pollfd>& entries) {
  std::unordered_map<int, short> ready;
  for (const pollfd& entry : entries) {
    if (entry.revents != 0) ready[entry.fd] = entry.revents;
  }
  if (ready.contains(signals_.fd())) signals_.take_one();
  if (gatherer_ != nullptr && ready.contains(gatherer_->event())) {
    failures_.take_dumps(Clock::now());
    take_figures();
  }
  agents_.handle(entries);
  output_.handle(ready);
  if (members_) members_->handle(entries, Clock::now());
  for (const pollfd& entry : entries) {
    if (input_carrier_) input_carrier_->handle(entry);
    if (input_ != nullptr) input_->handle(entry);
    if (input_ != nullptr && input_->take_echoed_line()) console_.take_typed_line();
    console_.handle(entry);
  }
  output_.take_console_error();
}

void Job::take_figures() {
  auto figures = gatherer_->take_figures();
  if (!figures || !ranks_.are_any_left()) return;
  figures_.take(std::move(*figures));
  if (members_) shown_summary_ = members_->summary(Clock::now());
  show_figures();
}

void Job::show_figures() {
  const TerminalSize size = terminal_size(STDERR_FILENO);
  std::vector<std::string> lines = figures_.lines(size.columns - 1, size.rows / 2);
  if (members_) lines.insert(lines.begin(), shown_summary_.substr(0, size.columns - 1));
  console_.pin(std::move(lines));
}

/// Between two epochs no figures come, but slots change, and the times for which they are left out.
void Job::refresh_summary(TimePoint now) {
  if (!members_ || !settings_.shows_figures || now < summary_at_) return;
  summary_at_ = members_->is_over() ? kNever : now + kSummaryPause;
  std::string summary = members_->summary(now);
  if (members_->is_over() || summary == shown_summary_) return;
  shown_summary_ = std::move(summary);
  show_figures();
}

void Job::check_time() {
  output_.tick(Clock::now());
  agents_.hold(false, console_.is_full(Console::Stream::out));
  agents_.hold(true, console_.is_full(Console::Stream::error));
  agents_.tick();
  const TimePoint now = Clock::now();  // losing an agent takes time
  check_reader(now);
  if (members_) members_->tick(now);
  refresh_summary(now);
  failures_.tick(now);
  if (members_ && ending_.is_under_way()) give_up_unstarted();
  ending_.tick(now);
}

/// In an elastic job that ends, processes whose agents are not ready will not be started.
void Job::give_up_unstarted() {
  for (const JobRank& rank : ranks_.all()) {
    if (rank.agent->phase < AgentLink::Phase::running && !rank.is_over) take_over(rank);
  }
}

/// Ends a job whose output has no reader. A job that was signalled to end waits only a limited time for a
/// reader.
void Job::check_reader(TimePoint now) {
  if (output_.is_reader_gone() && !is_reader_gone_) {
    is_reader_gone_ = true;
    failure_.close();
    if (ranks_.are_any_left()) log_.log("stdout is closed; ending the job");
    ending_.end(Command::kEnd, now);
  }
  if ((signals_.interrupted_by() || is_reader_gone_) && !ranks_.are_any_left()) output_.limit_reader(now);
}

void Job::take_end(const JobRank& rank, RankEnd end) {
  end.rank = rank.rank();
  end.host = rank.placement.host;
  end.pid = rank.pid;
  if (settings_.verbose) log_.log(fmt::format("{} {} {}", noun(), end.rank, describe(end)));
  ranks_.set_ended(end.rank);
  if (members_) {
    const int number = members_->rank_of(end.rank);
    members_->take_end(rank, end, Clock::now());
    if (!signals_.interrupted_by() || number < 0) return;
    end.rank = number;
  }
  if (settings_.on_end && !members_)
    settings_.on_end({end.rank, ranks_.size(), end.pid, exit_code_of(end), end.host});
  failure_.take_end(std::move(end), Clock::now());
}

void Job::take_over(const JobRank& rank) {
  ranks_.set_over(rank.rank());
  output_.rank_over(rank.rank());
}

void Job::rank_started(const AgentLink& agent, const StartedMessage& started) {
  const JobRank* rank = ranks_.find(agent, started.rank);
  if (rank == nullptr) return;
  ranks_.set_started(started.rank, started.pid, started.supervisor);
  if (settings_.verbose)
    log_.log(fmt::format("{} {} runs on host {} as pid {}", noun(), started.rank, agent.host(), started.pid));
}

void Job::rank_ended(const AgentLink& agent, const EndedMessage& ended) {
  const JobRank* rank = ranks_.find(agent, ended.rank);
  if (rank == nullptr || rank->has_ended) return;
  RankEnd end{.time_ns = agent.in_our_time(ended.time_ns), .our_signal = ended.our_signal};
  switch (ended.how) {
    case EndedMessage::How::exited: set_wait_status(end, ended.value); break;
    case EndedMessage::How::not_started:
      end.kind = RankEnd::Kind::not_started;
      end.value = ended.value;
      break;
    case EndedMessage::How::supervisor_lost: end.kind = RankEnd::Kind::supervisor_lost; break;
  }
  take_end(*rank, std::move(end));
}

void Job::rank_over(const AgentLink& agent, int number) {
  if (const JobRank* rank = ranks_.find(agent, number)) take_over(*rank);
}

void Job::states_came(const AgentLink& agent, const StatesMessage& states) {
  for (const RankState& state : states.ranks) {
    if (ranks_.find(agent, state.rank) != nullptr) ranks_.set_state(state);
  }
  failures_.strike(agent);
}

void Job::output_came(const AgentLink& agent, const OutputMessage& output) {
  if (ranks_.find(agent, output.rank) != nullptr)
    output_.take(output.rank, output.is_error_output, output.bytes);
}

void Job::output_ended(const AgentLink& agent, const OutputMessage& output) {
  if (ranks_.find(agent, output.rank) != nullptr) output_.end(output.rank, output.is_error_output);
}

void Job::input_taken() {
  if (input_carrier_) input_carrier_->taken();
}

void Job::signalled(const AgentLink& agent, const SignalledMessage& signalled) {
  if (members_ && signalled.signal == SIGTERM && !signals_.interrupted_by())
    return members_->host_leaves(agent, Clock::now());
  signals_.take(agent, signalled);
}

void Job::agent_ready(const AgentLink& agent) {
  if (members_) members_->agent_ready(agent);
  terminals_.resize();
}

void Job::start_failed(const AgentLink& agent) {
  failure_.close();
  for (const JobRank& rank : ranks_.all()) {
    if (rank.agent == &agent && rank.pid == 0) take_over(rank);  // it was never started
  }
  ending_.end(Command::kEnd, Clock::now());
}

void Job::agent_lost(const AgentLink& agent, const std::vector<std::string>& lines, bool is_srun_lost) {
  failures_.strike(agent);
  if (!ending_.is_under_way()) {
    for (const std::string& line : lines) log_.log(line);
  }
  if (members_) members_->agent_lost(agent, Clock::now());
  if (is_srun_lost) failure_.blame_srun([&](Rank rank) { return ranks_.find(agent, rank) != nullptr; });
  for (const JobRank& rank : ranks_.all()) {
    if (rank.agent != &agent) continue;
    if (!rank.has_ended)
      take_end(rank, {.kind = RankEnd::Kind::agent_lost,
                      .time_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(),
                      .our_signal = ending_.is_under_way() ? SIGKILL : 0,
                      .is_of_srun = is_srun_lost});
    if (!agent.is_local()) take_over(rank);
  }
}

}  // namespace dabke::launcher

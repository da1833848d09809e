#include "launcher/job/job.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <unordered_map>

#include <fmt/format.h>

#include "launcher/process/process_setup.h"
#include "launcher/verdict/blamed_rank.h"
#include "launcher/verdict/hang_verdict.h"
#include "runtime/base/terminal.h"
#include "runtime/base/text/counted.h"

namespace dabke {
namespace {

using namespace std::chrono_literals;

/// Ranks that die together are reported in whatever order; what comes within this time is sorted before
/// anybody is blamed.
constexpr auto kSettle = 10ms;
/// More is to come as long as a rank is in the middle of ending (the kernel frees its memory, its supervisor
/// has not run yet). A core file may take longer, and then the others are ended meanwhile.
constexpr auto kSettleLimit = 500ms;
/// A rank that others name as the cause has this long to end by itself, and a look at it comes so often. It may have to wait for a
/// core, and an interpreter takes its time to end. Ended by us it would not be the first failure.
constexpr auto kBlamedLimit = 3s;
constexpr auto kBlamedPause = 50ms;
/// Ranks take stacks before they send a dump; what comes later makes another verdict.
constexpr auto kGatherTime = 2s;
/// What the states of the ranks' processes may take to come.
constexpr auto kLookTime = 1s;

/// The time that a reader gets for the output of a job that was told to end, once its ranks have ended; and
/// the time for what is said after that.
constexpr auto kReaderTime = 3s;
constexpr auto kLastWordsTime = 1s;
/// Lines that are above the end of a job's output and yet in view.
constexpr std::size_t kLinesInView = 30;

/// What agents are to do about a signal for all ranks.
std::int32_t command_of(int signal, const SignalSender& sender) {
  return signal | (sender.is_batch_system ? Command::kOfStep : 0);
}

}  // namespace

Job::Job(Console& console, int signals, const FailurePolicy& policy, AgentStarter starter, Settings settings)
    : console_(console),
      signals_(signals),
      policy_(policy),
      settings_(std::move(settings)),
      starter_(std::move(starter)) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // for the supervisors of an agent that is killed
}

AgentLink& Job::add_agent(std::string host, PrepareMessage prepare) {
  agents_.push_back(std::make_unique<AgentLink>(std::move(host), std::move(prepare),
                                                seconds_to_duration(settings_.start_timeout_s)));
  return *agents_.back();
}

void Job::add_rank(const RankPlacement& placement, AgentLink& agent, RankOutputs outputs, OutputStyle style) {
  const auto style_on = [&](int fd) {
    OutputStyle here = style;
    here.is_coloured = style.is_coloured && ::isatty(fd) == 1;
    return here;
  };
  Member member{.placement = placement,
                .agent = &agent,
                .output = WorkerOutput(std::move(outputs.output), placement.rank, Console::Stream::out,
                                       style_on(STDOUT_FILENO)),
                .error_output = WorkerOutput(std::move(outputs.error_output), placement.rank,
                                             Console::Stream::error, style_on(STDERR_FILENO))};
  member.output.copy_to(std::move(outputs.output_file));
  member.error_output.copy_to(std::move(outputs.error_file));
  LastLines& last_lines = last_lines_[placement.rank];
  member.output.watch([this, &last_lines](std::string_view line) { last_lines.push(line, lines_shown_++); });
  member.error_output.watch([this, &last_lines, speaker = placement.rank](std::string_view line) {
    last_lines.push(line, lines_shown_++);
    const auto blame = blame_in(line, speaker);
    if (!blame || blame->rank == speaker) return;
    blamed_.try_emplace(blame->rank, blame->text);
    blamed_first_.try_emplace(speaker, blame->rank);
  });
  member.error_output.shorten_by([this, speaker = placement.rank](std::string_view line) {
    return texts_.shown(line, speaker, Clock::now());
  });
  members_.push_back(std::move(member));
}

void Job::say(std::string_view text) {
  console_.write(Console::Stream::error, fmt::format("dabkerun: {}\n", text));
  ++lines_shown_;
}

int Job::run() {
  start_agents();
  while (is_waiting_for_processes() || is_waiting_for_output()) turn();
  console_.pin({});
  if (refused_with_) return *refused_with_;
  take_dumps();
  if (judge_at_) judge_hang();
  Outcome outcome = conclude(judged_ends(), interrupted_by_);
  if (reader_gone_) return 128 + SIGPIPE;
  if (outcome.first_failed_rank) tell_last_lines(*outcome.first_failed_rank);
  for (const std::string& line : outcome.lines) say(line);
  if (outcome.exit_code != 0) tell_dump_files("");
  const bool is_copy_lost = tell_lost_copies();
  while (is_waiting_for_output()) turn();
  if (outcome.exit_code != 0) return outcome.exit_code;
  if (is_output_dropped_ && last_signal_) return 128 + *last_signal_;
  return output_lost_ || is_output_dropped_ || is_copy_lost ? 1 : 0;
}

/// Again, after all that was printed since: whether files of --output-filename lack something.
bool Job::tell_lost_copies() {
  std::map<std::string, std::vector<int>> ranks_by_trouble;
  for (const Member& member : members_) {
    for (const WorkerOutput* const output : {&member.output, &member.error_output}) {
      if (output->copy_trouble().empty()) continue;
      auto& ranks = ranks_by_trouble[output->copy_trouble()];
      if (ranks.empty() || ranks.back() != member.placement.rank) ranks.push_back(member.placement.rank);
    }
  }
  for (const auto& [trouble, ranks] : ranks_by_trouble)
    say(fmt::format("--output-filename: the files of {} {} lack a part of what was printed: {}",
                    ranks.size() == 1 ? "rank" : "ranks", rank_list(ranks), trouble));
  return !ranks_by_trouble.empty();
}

/// Unless they stand just above.
void Job::tell_last_lines(Rank rank) {
  const LastLines& last_lines = last_lines_[rank];
  const std::vector<std::string> lines = last_lines.all();
  const bool are_in_view =
      members_.size() == 1 || (console_.is_one() && lines_shown_ - last_lines.begin_at() <= kLinesInView);
  if (lines.empty() || are_in_view) return;
  say(fmt::format("the last {} that rank {} wrote:", lines.size() == 1 ? "line" : "lines", rank));
  for (const std::string& line : lines) say("| " + line);
}

bool Job::is_waiting_for_processes() const {
  return std::ranges::any_of(members_, [](const Member& member) { return !member.is_over; });
}

bool Job::is_waiting_for_output() const {
  return !console_.is_drained() || std::ranges::any_of(members_, [](const Member& member) {
    return member.output.is_open() || member.error_output.is_open();
  });
}

void Job::turn() {
  std::vector<pollfd> entries;
  add_poll_entries(entries);
  if (::poll(entries.data(), entries.size(), poll_timeout_ms(next_deadline())) > 0) handle_entries(entries);
  check_time();
}

TimePoint Job::next_deadline() const {
  TimePoint next = survey_ ? survey_->limit : kNever;
  for (const auto& agent : agents_) next = std::min(next, agent->deadline());
  for (const auto& each : {settled_at_, kill_at_, abandon_at_, survey_ ? std::nullopt : judge_at_, drop_at_,
                           look_for_supervisors_at_}) {
    if (each) next = std::min(next, *each);
  }
  if (input_ != nullptr) next = std::min(next, input_->looks_again_at());
  for (const Member& member : members_) {
    next = std::min({next, member.output.release_at(), member.error_output.release_at()});
  }
  return next;
}

void Job::add_poll_entries(std::vector<pollfd>& entries) {
  entries.push_back({signals_, POLLIN, 0});
  if (gatherer_ != nullptr) entries.push_back({gatherer_->event(), POLLIN, 0});
  starter_.add_poll_entries(entries);
  for (const auto& agent : agents_) agent->add_poll_entries(entries);
  if (input_carrier_) input_carrier_->add_poll_entries(entries);
  for (const Member& member : members_) {
    for (const WorkerOutput* output : {&member.output, &member.error_output}) {
      // The rank then waits in write() until the console has caught up, as it would without a launcher.
      if (output->pipe() >= 0 && !console_.is_full(output->stream()))
        entries.push_back({output->pipe(), POLLIN, 0});
    }
  }
  if (input_ != nullptr) input_->add_poll_entries(entries);
  console_.add_poll_entries(entries);
}

void Job::handle_entries(const std::vector<pollfd>& entries) {
  std::unordered_map<int, short> ready;
  for (const pollfd& entry : entries) {
    if (entry.revents != 0) ready[entry.fd] = entry.revents;
  }
  if (ready.contains(signals_)) take_signal();
  if (gatherer_ != nullptr && ready.contains(gatherer_->event())) {
    take_dumps();
    take_figures();
  }
  take_dialled_agents(entries);
  for (const auto& agent : agents_) {
    bool is_there = true;
    for (const pollfd& entry : entries) is_there = agent->handle(entry) && is_there;
    take_frames(*agent);
    if (!is_there && agent->is_open()) agent_lost(*agent, "");
  }
  order_when_greeted();
  for (Member& member : members_) {
    for (WorkerOutput* output : {&member.output, &member.error_output}) {
      if (output->pipe() >= 0 && ready.contains(output->pipe())) output->read(console_);
    }
  }
  for (const pollfd& entry : entries) {
    if (input_carrier_) input_carrier_->handle(entry);
    if (input_ != nullptr) input_->handle(entry);
    if (input_ != nullptr && input_->take_echoed_line()) console_.take_typed_line();
    console_.handle(entry);
  }
  if (const std::string error = console_.take_error(); !error.empty()) {
    output_lost_ = true;
    say(error);
  }
}

void Job::take_dumps() {
  if (gatherer_ == nullptr) return;
  for (Dump& dump : gatherer_->take_dumps()) {
    // A rank that sends another one has found something new.
    if (dumps_.empty() || dump.incident != incident_ || dumps_.contains(dump.rank)) {
      if (judge_at_) judge_hang();  // what there is of the last one
      dumps_.clear();
      incident_ = dump.incident;
      judge_at_ = Clock::now() + kGatherTime;
    } else if (!judge_at_ && ends_.empty()) {
      judge_at_ = Clock::now() + kGatherTime;  // it came late, and with it the verdict may be another
    }
    const Rank rank = dump.rank;
    dumps_.insert_or_assign(rank, std::move(dump));
  }
  if (judge_at_ && dumps_.size() == members_.size()) judge_hang();
}

void Job::take_figures() {
  auto figures = gatherer_->take_figures();
  if (!figures || !is_waiting_for_processes()) return;
  figures_.take(std::move(*figures));
  const TerminalSize size = terminal_size(STDERR_FILENO);
  console_.pin(figures_.lines(size.columns - 1, size.rows / 2));
}

void Job::judge_hang() {
  judge_at_.reset();
  std::map<Rank, std::string> silent;
  for (const Member& member : members_) {
    const Rank rank = member.placement.rank;
    // What stood still when the job failed is the one that matters. It goes on in order to end, and what it
    // may tell of itself then is not what it was when the others waited.
    const bool stood_still = member.state_at_failure.starts_with("is stopped");
    if (stood_still) dumps_.erase(rank);
    if (dumps_.contains(rank)) continue;
    if (stood_still || (member.end && !member.state_at_failure.empty())) {
      silent[rank] = member.state_at_failure;
    } else if (!member.end) {
      silent[rank] = states_[rank].state;
    }
  }
  // What a stall has been told about is not told again when the job fails of it.
  if (incident_ == 0 && !verdict_.empty()) return;
  const auto verdict = hang_verdict(dumps_, static_cast<int>(members_.size()), silent);
  if (std::exchange(verdict_, verdict) == verdict) return;
  for (std::size_t i = 0; i < verdict.size(); ++i) say(i == 0 ? "hang: " + verdict[i] : "  " + verdict[i]);
  tell_dump_files("  ");
}

/// Once: a later dump of a rank is in the same file.
void Job::tell_dump_files(std::string_view indent) {
  if (gatherer_ == nullptr || are_dumps_told_) return;
  const std::vector<std::string> paths = gatherer_->dump_files();
  if (paths.empty()) return;
  are_dumps_told_ = true;
  say(fmt::format("{}{}", indent, dumps_text(paths, static_cast<int>(members_.size()), agents_.size() == 1)));
}

/// Nobody reads it. The copies get all of it.
void Job::drop_output() {
  std::size_t lost = console_.abandon();
  for (Member& member : members_) {
    for (WorkerOutput* output : {&member.output, &member.error_output}) {
      if (output->pipe() < 0) continue;  // its agent sends the rest, and its end
      output->drain(console_);
      output->close(console_);
      lost += console_.abandon();
    }
  }
  drop_at_ = Clock::now() + kLastWordsTime;
  if (lost == 0 || is_output_dropped_) return;
  is_output_dropped_ = true;
  say(fmt::format("{} of output lost, because nobody has read it", counted(lost, "byte")));
}

void Job::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGTSTP) return stop_and_continue();
  take(signal, nullptr, sender_of(info));
}

/// Supervisors leave it out where their rank has had it already.
void Job::forward(int signal, const SignalSender& sender) {
  const std::string name = signal_name(signal);
  if (!is_started_) {
    if (signal != SIGCONT && signal != SIGWINCH)
      say(fmt::format("{} came before the ranks were started; nobody gets it", name));
    return;
  }
  if (settings_.verbose) say(fmt::format("{} from {}: passing it on to all ranks", name, sender.name));
  forwarded_[signal] = sender.name;
  if (signal == SIGWINCH) resize_terminals();
  command_all(command_of(signal, sender));
}

/// `process`: the agent that was sent it; null: this process was.
void Job::take(int signal, const AgentLink* process, const SignalSender& sender) {
  const std::string host = process == nullptr || process->is_local() ? "" : process->host();
  if (!step_signals_.is_another(signal, process, host, sender, Clock::now())) return;
  if (is_forwarded(signal)) return forward(signal, sender);
  last_signal_ = signal;
  if (!is_started_) {
    say(fmt::format("the job was ended by {}", signal_name(signal)));
    refuse(128 + signal);
  } else if (!is_waiting_for_processes()) {  // only output that nobody reads is left
    drop_at_ = Clock::now() + (drop_at_ ? 0s : kReaderTime);
  } else if (!interrupted_by_ && !announced_) {
    const auto grace = signal == SIGTERM ? settings_.grace_after_term : settings_.grace;
    say(fmt::format(
        "{}: passing it on to all ranks; those still running {:g} s later, or at a second Ctrl-C, are killed",
        signal_name(signal), std::chrono::duration<double>(grace).count()));
    interrupted_by_ = signal;
    passed_on_.insert(signal);
    told_to_end_ = true;
    command_all(command_of(signal, sender));
    kill_at_ = Clock::now() + grace;
  } else if (signal == SIGINT) {
    say("SIGINT: killing the ranks that still run");
    end_all(Command::kKill);
  } else if (interrupted_by_ && passed_on_.insert(signal).second) {
    command_all(command_of(signal, sender));  // it may end ranks that are deaf to the first
  }
}

/// Ctrl-Z: the ranks are in sessions of their own, so the terminal does not stop them.
void Job::stop_and_continue() {
  command_all(SIGSTOP);
  for (const auto& agent : agents_) agent->tell(FrameKind::pause);
  // Not SIGSTOP: in a process group that no shell looks after, the kernel lets this one pass, since nobody
  // would continue us.
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::kill(::getpid(), SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // here it stops
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  // What let this process go on is told below, also where nothing did.
  sigset_t go_on;
  ::sigemptyset(&go_on);
  ::sigaddset(&go_on, SIGCONT);
  const timespec at_once{};
  (void)::sigtimedwait(&go_on, nullptr, &at_once);
  for (const auto& agent : agents_) agent->forgive_silence();
  resize_terminals();  // SIGWINCH comes to the foreground alone
  command_all(SIGCONT);
}

void Job::member_ended(Member& member, RankEnd end) {
  end.rank = member.placement.rank;
  end.host = member.placement.host;
  end.pid = member.pid;
  if (settings_.verbose) say(fmt::format("rank {} {}", end.rank, describe(end)));
  member.end = end;
  ends_.push_back(end);
  if (settings_.on_end)
    settings_.on_end({end.rank, static_cast<int>(members_.size()), end.pid, exit_code_of(end), end.host});
  if (is_failure(end) && !interrupted_by_ && !announced_ && !settled_at_) {
    settled_at_ = Clock::now() + kSettle;
    settle_limit_ = Clock::now() + kSettleLimit;
    blamed_limit_ = Clock::now() + kBlamedLimit;
  }
}

void Job::check_time() {
  const TimePoint now = Clock::now();
  for (Member& member : members_) {
    for (WorkerOutput* output : {&member.output, &member.error_output}) {
      if (output->release_at() <= now) output->release(console_);
      if (member.is_over) output->drain(console_);
    }
  }
  check_agents();
  if (console_.stdout_is_closed() && !reader_gone_) {
    reader_gone_ = true;
    announced_ = true;
    if (is_waiting_for_processes()) say("nobody reads stdout any more; ending the job");
    end_all(Command::kEnd);
  }
  if (settled_at_ && now >= *settled_at_) {
    settled_at_.reset();
    survey(true);
  }
  if (judge_at_ && now >= *judge_at_ && !survey_) survey(false);
  check_survey();
  if (kill_at_ && now >= *kill_at_) end_all(Command::kKill);
  if ((interrupted_by_ || reader_gone_) && !drop_at_ && !is_waiting_for_processes())
    drop_at_ = now + kReaderTime;
  if (drop_at_ && now >= *drop_at_) drop_output();
  if (abandon_at_ && now >= *abandon_at_) {
    for (const auto& agent : agents_) agent->kill_process();
    abandon_at_.reset();
  }
}

void Job::check_agents() {
  for (const auto& agent : agents_) {
    agent->hold(false, console_.is_full(Console::Stream::out));
    agent->hold(true, console_.is_full(Console::Stream::error));
    if (agent->is_late())
      agent_lost(*agent, fmt::format("not ready after {:g} s (--start-timeout)", settings_.start_timeout_s));
    if (!agent->keep_beating())
      agent_lost(*agent, fmt::format("nothing heard for {:g} s (DABKE_PEER_TIMEOUT_SECONDS)",
                                     agent->silence_limit_s()));
  }
  if (!is_started_) start_agents();
  if (look_for_supervisors_at_ && Clock::now() >= *look_for_supervisors_at_) await_lost_supervisors();
}

void Job::survey(bool is_for_failure) {
  const TimePoint limit =
      is_for_failure ? std::max(settle_limit_, Clock::now() + kSettle) : Clock::now() + kLookTime;
  if (!survey_) {
    survey_ = Survey{.awaited = {}, .limit = limit};
    for (const auto& agent : agents_) {
      if (agent->phase != AgentLink::Phase::running) continue;
      survey_->awaited.insert(agent.get());
      agent->tell(FrameKind::look);
    }
  }
  (is_for_failure ? survey_->is_for_failure : survey_->is_for_hang) = true;
  survey_->limit = std::min(survey_->limit, limit);
}

void Job::check_survey() {
  if (!survey_ || (!survey_->awaited.empty() && Clock::now() < survey_->limit)) return;
  const Survey survey = *std::exchange(survey_, std::nullopt);
  if (survey.is_for_failure) settle_failure();
  if (survey.is_for_hang && judge_at_) judge_hang();
}

void Job::settle_failure() {
  if (Clock::now() < settle_limit_ && is_somebody_ending()) {
    settled_at_ = Clock::now() + kSettle;
  } else if (Clock::now() < blamed_limit_ && is_blamed_awaited()) {
    settled_at_ = Clock::now() + kBlamedPause;
  } else {
    announce_failure();
  }
}

/// A rank that others name as the cause ends by itself as a rule, after its own last words.
bool Job::is_somebody_ending() const {
  return std::ranges::any_of(members_, [this](const Member& member) {
    if (member.end || member.pid == 0) return false;
    const auto state = states_.find(member.placement.rank);
    return blamed_.contains(member.placement.rank) || (state != states_.end() && state->second.is_ending);
  });
}

/// A stopped one does not end by itself.
bool Job::is_blamed_awaited() const {
  return std::ranges::any_of(members_, [this](const Member& member) {
    if (member.end || member.pid == 0 || !blamed_.contains(member.placement.rank)) return false;
    const auto state = states_.find(member.placement.rank);
    return state == states_.end() || !state->second.state.starts_with("is stopped");
  });
}

std::vector<RankEnd> Job::judged_ends() const {
  std::vector<RankEnd> ends = ends_;
  for (RankEnd& end : ends) {
    if (const auto lines = last_lines_.find(end.rank); is_failure(end) && lines != last_lines_.end())
      end.last_lines = lines->second.all();
    if (const auto blame = blamed_.find(end.rank); blame != blamed_.end()) {
      end.is_blamed = true;
      const bool is_good = !is_failure(end);
      if (is_good || end.our_signal != 0) end.early_leave = early_leave(blame->second, is_good);
    }
    const auto forwarded = forwarded_.find(end.value);
    if (end.kind == RankEnd::Kind::signalled && forwarded != forwarded_.end())
      end.signal_sender = forwarded->second;
  }
  // What a rank does once another has left early follows from that, also where others name it for it.
  const auto has_left_early = [&](Rank rank) {
    const auto end = std::ranges::find(ends, rank, &RankEnd::rank);
    return end != ends.end() && !end->early_leave.empty();
  };
  for (RankEnd& end : ends) {
    const auto first = blamed_first_.find(end.rank);
    if (end.early_leave.empty() && first != blamed_first_.end() && has_left_early(first->second))
      end.is_blamed = false;
  }
  return ends;
}

void Job::announce_failure() {
  if (announced_ || interrupted_by_) return;
  announced_ = true;
  const auto ends = judged_ends();
  const RankEnd* first = first_failure(ends);
  const bool is_anyone_left = std::ranges::any_of(members_, [](const Member& member) { return !member.end; });
  if (first == nullptr || !is_anyone_left) return;
  if (policy_.after(*first) == FailurePolicy::Answer::go_on) return;
  for (Member& member : members_) {
    if (!member.end) member.state_at_failure = states_[member.placement.rank].state;
  }
  say(fmt::format("rank {} on host {} (pid {}) {}; ending the other ranks", first->rank, first->host,
                  first->pid, describe(*first)));
  end_all(Command::kEnd);
}

/// An agent gives up its supervisors before this.
TimePoint Job::agents_end_by() const { return Clock::now() + abandon_after(settings_.grace) + 2s; }

void Job::command_all(std::int32_t command) {
  for (const auto& agent : agents_) {
    if (agent->phase == AgentLink::Phase::running) agent->tell(FrameKind::command, CommandMessage{command});
  }
}

void Job::end_all(std::int32_t command) {
  told_to_end_ = true;
  command_all(command);
  kill_at_.reset();
  if (!abandon_at_) abandon_at_ = agents_end_by();
}

}  // namespace dabke

#include "launcher/job/job.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <unordered_map>

#include <fmt/format.h>

#include "launcher/job/blamed_rank.h"
#include "launcher/job/hang_verdict.h"
#include "launcher/job/process_tree.h"
#include "launcher/job/supervisor.h"
#include "runtime/base/whereabouts.h"

namespace dabke {
namespace {

using namespace std::chrono_literals;

/// Ranks that die together are reported in whatever order; what comes within this time is sorted before
/// anybody is blamed.
constexpr auto kSettle = 10ms;
/// More is to come as long as a rank is in the middle of ending (the kernel frees its memory, its supervisor
/// has not run yet). A core file may take longer, and then the others are ended meanwhile.
constexpr auto kSettleLimit = 500ms;
/// Ranks take stacks before they send a dump.
constexpr auto kGatherTime = 2s;
/// Beyond the supervisor's own limits (kPatience to SIGKILL, as much again for the kernel).
constexpr auto kAbandonAfter = 2 * kPatience + 3s;

/// The time that a reader gets for the output of a job that was told to end, once its ranks have ended; and
/// the time for what is said after that.
constexpr auto kReaderTime = 3s;
constexpr auto kLastWordsTime = 1s;

std::int64_t to_ns(TimePoint time) { return std::chrono::nanoseconds(time.time_since_epoch()).count(); }

}  // namespace

void Job::add_rank(const RankPlacement& placement, SpawnedWorker worker, OutputStyle style, Fd output_file,
                   Fd error_file) {
  Member member{.placement = placement,
                .supervisor = worker.supervisor,
                .channel = std::move(worker.channel),
                .output = WorkerOutput(std::move(worker.output), placement.rank, Console::Stream::out, style),
                .error_output = WorkerOutput(std::move(worker.error_output), placement.rank,
                                             Console::Stream::error, style)};
  member.output.copy_to(std::move(output_file));
  member.error_output.copy_to(std::move(error_file));
  LastLines& last_lines = last_lines_[placement.rank];
  member.output.watch([&last_lines](std::string_view line) { last_lines.push(line); });
  member.error_output.watch([this, &last_lines, speaker = placement.rank](std::string_view line) {
    last_lines.push(line);
    const auto rank = blamed_rank(line, speaker);
    if (rank && *rank != speaker) blamed_.insert(*rank);
  });
  members_.push_back(std::move(member));
}

void Job::say(std::string_view text) {
  console_.write(Console::Stream::error, fmt::format("dabkerun: {}\n", text));
}

int Job::run() {
  while (is_waiting_for_processes() || is_waiting_for_output()) turn();
  take_dumps();
  if (judge_at_) judge_hang();
  Outcome outcome = conclude(judged_ends(), interrupted_by_);
  const bool is_copy_lost = std::ranges::any_of(members_, [](const Member& member) {
    return member.output.is_copy_lost() || member.error_output.is_copy_lost();
  });
  if (reader_gone_) return 128 + SIGPIPE;
  if (outcome.first_failed_rank) tell_last_lines(*outcome.first_failed_rank);
  for (const std::string& line : outcome.lines) say(line);
  while (is_waiting_for_output()) turn();
  if (outcome.exit_code != 0) return outcome.exit_code;
  if (is_output_dropped_ && last_signal_) return 128 + *last_signal_;
  return output_lost_ || is_output_dropped_ || is_copy_lost ? 1 : 0;
}

/// Those of a job of one rank stand right above.
void Job::tell_last_lines(Rank rank) {
  const std::vector<std::string> lines = last_lines_[rank].all();
  if (lines.empty() || members_.size() == 1) return;
  say(fmt::format("the last {} that rank {} wrote:", lines.size() == 1 ? "line" : "lines", rank));
  for (const std::string& line : lines) say("| " + line);
}

int Job::give_up(const std::string& why) {
  say(why);
  announced_ = true;
  end_all(Command::kEnd);
  while (is_waiting_for_processes() || is_waiting_for_output()) turn();
  return 1;
}

bool Job::has_running_supervisor() const { return std::ranges::any_of(members_, &Member::is_supervised); }

bool Job::is_waiting_for_processes() const { return has_running_supervisor() || orphans_.due() != kNever; }

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
  TimePoint next = orphans_.due();
  for (const auto& each : {settled_at_, kill_at_, abandon_at_, judge_at_, drop_at_}) {
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
  for (const Member& member : members_) {
    if (member.is_supervised()) entries.push_back({member.channel.get(), POLLIN, 0});
    for (const WorkerOutput* output : {&member.output, &member.error_output}) {
      // The rank then waits in write() until the console has caught up, as it would without a launcher.
      if (output->is_open() && !console_.is_full(output->stream()))
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
  if (gatherer_ != nullptr && ready.contains(gatherer_->event())) take_dumps();
  for (Member& member : members_) {
    if (member.is_supervised() && ready.contains(member.channel.get())) take_reports(member);
    for (WorkerOutput* output : {&member.output, &member.error_output}) {
      if (output->is_open() && ready.contains(output->pipe())) output->read(console_);
    }
  }
  for (const pollfd& entry : entries) {
    if (input_ != nullptr) input_->handle(entry);
    console_.handle(entry);
  }
  if (const std::string error = console_.take_error(); !error.empty()) {
    output_lost_ = true;
    say(error);
  }
}

void Job::take_dumps() {
  if (gatherer_ == nullptr) return;
  for (Dump& dump : gatherer_->take()) {
    // A rank that sends another one has found something new.
    if (dumps_.empty() || dump.incident != incident_ || dumps_.contains(dump.rank)) {
      if (judge_at_) judge_hang();  // what there is of the last one
      dumps_.clear();
      incident_ = dump.incident;
      judge_at_ = Clock::now() + kGatherTime;
    }
    const Rank rank = dump.rank;
    dumps_.insert_or_assign(rank, std::move(dump));
  }
  if (judge_at_ && dumps_.size() == members_.size()) judge_hang();
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
      silent[rank] = process_state(member.pid);
    }
  }
  // What a stall has been told about is not told again when the job fails of it.
  if (incident_ == 0 && has_verdict_) return;
  has_verdict_ = true;
  const auto verdict = hang_verdict(dumps_, static_cast<int>(members_.size()), silent);
  for (std::size_t i = 0; i < verdict.size(); ++i) say(i == 0 ? "hang: " + verdict[i] : "  " + verdict[i]);
}

/// Nobody reads it. The copies get all of it.
void Job::drop_output() {
  std::size_t lost = console_.abandon();
  for (Member& member : members_) {
    for (WorkerOutput* output : {&member.output, &member.error_output}) {
      output->drain(console_);
      output->close(console_);
      lost += console_.abandon();
    }
  }
  drop_at_ = Clock::now() + kLastWordsTime;
  if (lost == 0 || is_output_dropped_) return;
  is_output_dropped_ = true;
  say(fmt::format("{} bytes of output are lost, because nobody has read them", lost));
}

void Job::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGTSTP) return stop_and_continue();
  last_signal_ = signal;
  if (!has_running_supervisor()) {  // only output that nobody reads is left
    drop_at_ = Clock::now() + (drop_at_ ? 0s : kReaderTime);
  } else if (!interrupted_by_ && !announced_) {
    say(fmt::format(
        "{}: passing it on to all ranks; those still running {} s later, or at a second Ctrl-C, are killed",
        signal_name(signal), kPatience.count()));
    interrupted_by_ = signal;
    told_to_end_ = true;
    command_all(signal);
    kill_at_ = Clock::now() + kPatience;
    abandon_at_ = Clock::now() + kAbandonAfter;
  } else if (signal == SIGINT) {
    say("SIGINT: killing the ranks that still run");
    end_all(Command::kKill);
  } else if (interrupted_by_) {
    command_all(signal);
  }
}

/// Ctrl-Z: the ranks are in sessions of their own, so the terminal does not stop them.
void Job::stop_and_continue() {
  command_all(SIGSTOP);
  // Not SIGSTOP: in a process group that no shell looks after, the kernel lets this one pass, since nobody
  // would continue us.
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::kill(::getpid(), SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // here it stops
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  command_all(SIGCONT);
}

void Job::take_reports(Member& member) {
  for (;;) {
    Report report;
    const ssize_t got = ::recv(member.channel.get(), &report, sizeof report, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof report)) {
      take_report(member, report);
      continue;
    }
    // A supervisor that ends with a command unread resets the channel; this is said once, before its last
    // reports.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got < 0 && errno == EAGAIN) return;
    break;
  }
  supervisor_ended(member);
}

void Job::supervisor_ended(Member& member) {
  int status = 0;
  const bool is_known = ::waitpid(member.supervisor, &status, 0) == member.supervisor;
  if (!is_known || !WIFEXITED(status) || WEXITSTATUS(status) != 0) orphans_.take(member.supervisor);
  member.channel = Fd();
  if (!member.end) {
    // What the supervisor had sent is not known.
    member_ended(member, {.kind = RankEnd::Kind::supervisor_lost,
                          .value = 0,
                          .time_ns = to_ns(Clock::now()),
                          .our_signal = told_to_end_ ? SIGKILL : 0});
  }
}

void Job::kill_orphans() {
  std::vector<pid_t> supervisors;
  for (const Member& member : members_) {
    if (member.is_supervised()) supervisors.push_back(member.supervisor);
  }
  if (const std::size_t left = orphans_.kill(supervisors); left != 0)
    say(fmt::format(
        "{} processes of ranks whose supervisor was killed did not end on SIGKILL; they hang in the kernel",
        left));
}

void Job::take_report(Member& member, const Report& report) {
  switch (report.kind) {
    case Report::Kind::started:
      member.pid = report.value;
      if (verbose_)
        say(fmt::format("rank {} runs on host {} as pid {}", member.placement.rank, member.placement.host,
                        member.pid));
      return;
    case Report::Kind::left_behind:
      say(fmt::format("rank {}: {} of its processes did not end on SIGKILL; they hang in the kernel",
                      member.placement.rank, report.value));
      return;
    case Report::Kind::not_started:
      member_ended(member,
                   {.kind = RankEnd::Kind::not_started, .value = report.value, .time_ns = report.time_ns});
      return;
    case Report::Kind::exited: break;
  }
  RankEnd end{.time_ns = report.time_ns, .our_signal = report.our_signal};
  set_wait_status(end, report.value);
  member_ended(member, std::move(end));
}

void Job::member_ended(Member& member, RankEnd end) {
  end.rank = member.placement.rank;
  end.host = member.placement.host;
  end.pid = member.pid;
  if (verbose_) say(fmt::format("rank {} {}", end.rank, describe(end)));
  member.end = end;
  ends_.push_back(end);
  if (is_failure(end) && !interrupted_by_ && !announced_ && !settled_at_) {
    settled_at_ = Clock::now() + kSettle;
    settle_limit_ = Clock::now() + kSettleLimit;
  }
}

void Job::check_time() {
  const TimePoint now = Clock::now();
  for (Member& member : members_) {
    for (WorkerOutput* output : {&member.output, &member.error_output}) {
      if (output->release_at() <= now) output->release(console_);
      if (!member.is_supervised()) output->drain(console_);
    }
  }
  if (console_.stdout_is_closed() && !reader_gone_) {
    reader_gone_ = true;
    announced_ = true;
    if (has_running_supervisor()) say("nobody reads stdout any more; ending the job");
    end_all(Command::kEnd);
  }
  if (settled_at_ && now >= *settled_at_) {
    settled_at_.reset();
    if (now < settle_limit_ && is_somebody_ending()) {
      settled_at_ = now + kSettle;
    } else {
      announce_failure();
    }
  }
  if (now >= orphans_.due()) kill_orphans();
  if (judge_at_ && now >= *judge_at_) judge_hang();
  if (kill_at_ && now >= *kill_at_) end_all(Command::kKill);
  if ((interrupted_by_ || reader_gone_) && !drop_at_ && !is_waiting_for_processes())
    drop_at_ = now + kReaderTime;
  if (drop_at_ && now >= *drop_at_) drop_output();
  if (abandon_at_ && now >= *abandon_at_) {
    for (const Member& member : members_) {
      if (member.is_supervised()) ::kill(member.supervisor, SIGKILL);
    }
    abandon_at_.reset();
  }
}

/// A rank that others name as the cause ends by itself as a rule, after its own last words.
bool Job::is_somebody_ending() const {
  return std::ranges::any_of(members_, [this](const Member& member) {
    return !member.end && member.pid > 0 &&
           (blamed_.contains(member.placement.rank) || is_ending(member.pid));
  });
}

std::vector<RankEnd> Job::judged_ends() const {
  std::vector<RankEnd> ends = ends_;
  for (RankEnd& end : ends) end.is_blamed = blamed_.contains(end.rank);
  return ends;
}

void Job::announce_failure() {
  if (announced_ || interrupted_by_) return;
  announced_ = true;
  const auto ends = judged_ends();
  const RankEnd* first = first_failure(ends);
  const bool is_anyone_left = std::ranges::any_of(members_, [](const Member& member) { return !member.end; });
  if (first == nullptr || !is_anyone_left) return;
  for (Member& member : members_) {
    if (!member.end) member.state_at_failure = process_state(member.pid);
  }
  say(fmt::format("rank {} on host {} (pid {}) {}; ending the other ranks", first->rank, first->host,
                  first->pid, describe(*first)));
  end_all(Command::kEnd);
}

void Job::command_all(std::int32_t command) {
  for (const Member& member : members_) {
    if (member.is_supervised())
      (void)!::send(member.channel.get(), &command, sizeof command, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Job::end_all(std::int32_t command) {
  told_to_end_ = true;
  command_all(command);
  kill_at_.reset();
  if (!abandon_at_) abandon_at_ = Clock::now() + kAbandonAfter;
}

}  // namespace dabke

#include "launcher/job/signals/job_signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "launcher/job/signals/stop.h"
#include "launcher/process/supervisor.h"
#include "launcher/verdict/outcome.h"

namespace dabke::launcher {
namespace {

/// Returns the agents' command for a signal to all ranks.
std::int32_t command_of(int signal, const SignalSender& sender) {
  return signal | (sender.is_batch_system ? Command::kOfStep : 0);
}

}  // namespace

void JobSignals::take_one() {
  signalfd_siginfo info{};
  if (::read(fd_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGTSTP) return stop_and_continue();
  take(signal, nullptr, launcher::sender_of(info));
}

void JobSignals::take(const AgentLink& agent, const SignalledMessage& signalled) {
  SignalSender sender = signalled.sender;
  if (!agent.is_local()) sender.name += fmt::format(" on host {}", agent.host());
  take(signalled.signal, &agent, sender);
}

SignalAnswers::Stage JobSignals::stage() const {
  if (!job_.agents.is_started()) return SignalAnswers::Stage::starting;
  if (job_.is_over()) return SignalAnswers::Stage::printing;
  return job_.failure.is_closed() ? SignalAnswers::Stage::ending : SignalAnswers::Stage::running;
}

/// `process` is the agent that received the signal; null: this process received it.
void JobSignals::take(int signal, const AgentLink* process, const SignalSender& sender) {
  using Answer = SignalAnswers::Answer;
  const TimePoint now = Clock::now();
  const std::string host = process == nullptr || process->is_local() ? "" : process->host();
  switch (answers_.answer(signal, process, host, sender, stage(), now)) {
    case Answer::nothing: return;
    case Answer::too_early:
      return job_.log.log(
          fmt::format("{} came before the ranks were started and is dropped", signal_name(signal)));
    case Answer::forward: return forward(signal, sender);
    case Answer::refuse:
      job_.log.log(fmt::format("the job was ended by {}", signal_name(signal)));
      return job_.agents.refuse(128 + signal);
    case Answer::hurry: return job_.output.hurry_reader(now);
    case Answer::interrupt: return interrupt(signal, sender, now);
    case Answer::pass_on: return job_.agents.command(command_of(signal, sender));
    case Answer::kill:
      job_.log.log("SIGINT: killing the ranks that still run");
      return job_.ending.end(Command::kKill, now);
  }
}

/// Supervisors skip the signal if their rank has received it already.
void JobSignals::forward(int signal, const SignalSender& sender) {
  if (settings_.verbose)
    job_.log.log(fmt::format("{} from {}: passing it on to all ranks", signal_name(signal), sender.name));
  if (signal == SIGWINCH) job_.terminals.resize();
  job_.agents.command(command_of(signal, sender));
}

void JobSignals::interrupt(int signal, const SignalSender& sender, TimePoint now) {
  const auto grace = signal == SIGTERM ? settings_.grace_after_term : settings_.grace;
  job_.log.log(fmt::format(
      "{}: passing it on to all ranks; those still running {:g} s later, or at a second Ctrl-C, are killed",
      signal_name(signal), std::chrono::duration<double>(grace).count()));
  job_.failure.close();
  job_.ending.interrupt(command_of(signal, sender), grace, now);
}

/// Handles Ctrl-Z: the ranks are in sessions of their own, so the terminal does not stop them.
void JobSignals::stop_and_continue() {
  job_.agents.command(SIGSTOP);
  job_.agents.pause();
  stop_this_process();
  job_.agents.forgive_silence();
  job_.terminals.resize();  // SIGWINCH reaches only the foreground
  job_.agents.command(SIGCONT);
}

}  // namespace dabke::launcher

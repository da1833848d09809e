#include "launcher/job/signals/signal_answers.h"

#include <signal.h>

#include "launcher/process/supervisor.h"

namespace dabke::launcher {

SignalAnswers::Answer SignalAnswers::answer(int signal, const void* process, const std::string& host,
                                            const SignalSender& sender, Stage stage, TimePoint now) {
  if (!step_signals_.is_another(signal, process, host, sender, now)) return Answer::nothing;
  if (is_forwarded(signal)) {
    if (stage == Stage::starting)
      return signal == SIGCONT || signal == SIGWINCH ? Answer::nothing : Answer::too_early;
    forwarded_[signal] = sender.name;
    return Answer::forward;
  }
  last_ = signal;
  if (stage == Stage::starting) return Answer::refuse;
  if (stage == Stage::printing) return Answer::hurry;
  if (stage == Stage::running && !interrupted_by_) {
    interrupted_by_ = signal;
    passed_on_.insert(signal);
    return Answer::interrupt;
  }
  if (signal == SIGINT) return Answer::kill;
  // The second signal may end ranks that ignore the first.
  return interrupted_by_ && passed_on_.insert(signal).second ? Answer::pass_on : Answer::nothing;
}

std::string SignalAnswers::sender_of(int signal) const {
  const auto found = forwarded_.find(signal);
  return found == forwarded_.end() ? "" : found->second;
}

}  // namespace dabke::launcher

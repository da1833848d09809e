// The signals of a job: taken from dabkerun's signalfd and from agents, answered, and passed on to the ranks.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "launcher/job/agents/job_agents.h"
#include "launcher/job/failures/failure_watch.h"
#include "launcher/job/job_ending.h"
#include "launcher/job/job_log.h"
#include "launcher/job/job_output.h"
#include "launcher/job/job_ranks.h"
#include "launcher/job/signals/rank_terminals.h"
#include "launcher/job/signals/signal_answers.h"
#include "launcher/process/process_setup.h"
#include "launcher/reach/agent_link.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class JobSignals {
 public:
  struct Settings {
    bool verbose = false;
    std::chrono::milliseconds grace{}, grace_after_term{};
  };
  /// References to the objects on which signals act.
  struct Job {
    JobLog& log;
    JobOutput& output;
    JobAgents& agents;
    JobEnding& ending;
    FailureWatch& failure;
    const RankTerminals& terminals;
    std::function<bool()> is_over;  // nothing of a rank is left, and no rank will be started
  };

  /// `fd` is a signalfd of the signals to take; the caller owns it.
  JobSignals(int fd, Settings settings, Job job) : fd_(fd), settings_(settings), job_(std::move(job)) {}

  /// Readable when there is a signal for take_one().
  int fd() const { return fd_; }
  void take_one();
  /// Takes a signal that an agent received.
  void take(const AgentLink& agent, const SignalledMessage& signalled);

  std::optional<int> interrupted_by() const { return answers_.interrupted_by(); }
  std::optional<int> last() const { return answers_.last(); }
  std::string sender_of(int signal) const { return answers_.sender_of(signal); }

 private:
  SignalAnswers::Stage stage() const;
  void take(int signal, const AgentLink* process, const SignalSender& sender);
  void forward(int signal, const SignalSender& sender);
  void interrupt(int signal, const SignalSender& sender, TimePoint now);
  void stop_and_continue();

  const int fd_;
  const Settings settings_;
  const Job job_;
  SignalAnswers answers_;
};

}  // namespace dabke::launcher

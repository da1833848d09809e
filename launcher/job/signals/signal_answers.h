// The answer of a job to a signal that dabkerun or one of its agents received. Pure: the caller passes the
// time.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/job/signals/step_signals.h"
#include "launcher/process/process_setup.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class SignalAnswers {
 public:
  /// The stages of a job.
  enum class Stage {
    starting,  // no rank runs yet
    running,
    ending,   // because of a failure, or of a signal
    printing  // all ranks are over, and their output is not written yet
  };
  enum class Answer {
    nothing,
    too_early,  // it is lost: no rank is there to get it yet
    forward,    // to all ranks, which handle it as they like
    refuse,     // the ranks are not started
    hurry,      // output without a reader is dropped soon
    interrupt,  // to all ranks, which end because of it, or are killed later
    pass_on,    // to all ranks, which got another signal before
    kill,
  };

  /// `process` received the signal, and runs on `host` (empty: this host).
  Answer answer(int signal, const void* process, const std::string& host, const SignalSender& sender,
                Stage stage, TimePoint now);

  /// The signal that ended the job; none if something else did, or if it has not ended.
  std::optional<int> interrupted_by() const { return interrupted_by_; }
  /// The last signal that asked dabkerun to end.
  std::optional<int> last() const { return last_; }
  /// A description of the last sender of a forwarded signal; empty if it was not forwarded.
  std::string sender_of(int signal) const;

 private:
  StepSignals step_signals_;
  std::map<int, std::string> forwarded_;  // with the last sender of each
  std::optional<int> interrupted_by_;
  std::set<int> passed_on_;  // signals that end ranks; repeating one changes nothing
  std::optional<int> last_;
};

}  // namespace dabke::launcher

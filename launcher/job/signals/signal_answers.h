// What a job does about a signal that dabkerun or one of its agents was sent. Pure: the caller passes the
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
  /// How far the job is.
  enum class Stage {
    starting,  // no rank runs yet
    running,
    ending,   // because of a failure, or of a signal
    printing  // all ranks are over, and their output is not written yet
  };
  enum class Answer {
    nothing,
    too_early,  // it is lost: there are no ranks yet that could get it
    forward,    // to all ranks, which do with it what they want
    refuse,     // the ranks are not started
    hurry,      // output that nobody reads is dropped soon
    interrupt,  // to all ranks, which end by it, or are killed later
    pass_on,    // to all ranks, which were sent another one before
    kill,
  };

  /// `process` was sent it, which runs on `host` (empty: this one).
  Answer answer(int signal, const void* process, const std::string& host, const SignalSender& sender,
                Stage stage, TimePoint now);

  /// The signal that ended the job; none: something else did, or it has not ended.
  std::optional<int> interrupted_by() const { return interrupted_by_; }
  /// The last that asked dabkerun to end.
  std::optional<int> last() const { return last_; }
  /// Who has sent the last of a signal that was forwarded, in words; empty: it was not.
  std::string sender_of(int signal) const;

 private:
  StepSignals step_signals_;
  std::map<int, std::string> forwarded_;  // with the sender of the last of each
  std::optional<int> interrupted_by_;
  std::set<int> passed_on_;  // that tell ranks to end; a second one changes nothing
  std::optional<int> last_;
};

}  // namespace dabke::launcher

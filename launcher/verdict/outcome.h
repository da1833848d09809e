// What became of a job: which rank failed first, what followed from it, and the code that dabkerun returns.
// Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dabke::launcher {

/// How one rank ended, as far as is known.
struct RankEnd {
  enum class Kind {
    exited,           // value: exit code
    signalled,        // value: signal
    not_started,      // value: errno of execve
    supervisor_lost,  // the supervisor was killed, and the rank with it
    agent_lost,       // nothing is heard any more of its host's agent, which told of it
  };
  int rank = 0;
  std::string host;
  pid_t pid = 0;
  Kind kind = Kind::exited;
  int value = 0;
  bool core_dumped = false;
  std::int64_t time_ns = 0;  // when that was seen, by the launcher's clock
  int our_signal = 0;      // the last that dabkerun had sent it before it began to end; 0: it ended by itself
  bool is_blamed = false;  // another rank has named it as the reason of its own end
  std::string
      early_leave;  // "left the job in good order ...", where others had still something to do with it
  std::string
      signal_sender;  // signalled: dabkerun has forwarded the signal, which this has sent, "pid 71 (slurmstepd)"
  std::vector<std::string> last_lines;  // that it wrote, oldest first
  bool is_of_srun = false;  // agent_lost: because srun was killed, and Slurm kills then what that has started
};

/// Takes a status as waitpid gives it.
void set_wait_status(RankEnd& end, int wait_status);

/// "SIGKILL", or "signal 42".
std::string signal_name(int signal);
/// The code as a shell gives it: the code itself, 128 + signal, 126 or 127.
int exit_code_of(const RankEnd& end);
bool is_failure(const RankEnd& end);
/// "exited with status code 3", "was killed by SIGSEGV (signal 11)", ...
std::string describe(const RankEnd& end);
/// What that means and what to do; empty when there is nothing to add.
std::string meaning_of(const RankEnd& end);

/// A rank that has left the others, for no failure of its own. Null: none has, or something else came first.
const RankEnd* early_leaver(const std::vector<RankEnd>& ends, const RankEnd& first);

/// The failure that came first. Ranks that ended by themselves go before those that were told to, and among
/// them a crash before an error exit: ranks that lost their peer end so soon, and on a busy machine their
/// ends are seen in any order. Then the loss of what Slurm has started, of which some may have been seen to die
/// before; then one whose loss others have reported; otherwise the time decides.
const RankEnd* first_failure(const std::vector<RankEnd>& ends);

struct Outcome {
  int exit_code = 0;
  std::vector<std::string> lines;        // for stderr, without "dabkerun: "
  std::optional<int> first_failed_rank;  // empty also where a signal has ended the job
};

/// `interrupted_by`: the signal that told dabkerun to end the job.
Outcome conclude(const std::vector<RankEnd>& ends, std::optional<int> interrupted_by);

/// "0-3,7"
std::string rank_list(std::vector<int> ranks);

}  // namespace dabke::launcher

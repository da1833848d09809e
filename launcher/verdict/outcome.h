// The outcome of a job: the rank that failed first, the consequences, and dabkerun's exit code. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dabke::launcher {

/// The end of one rank, as far as it is known.
struct RankEnd {
  enum class Kind {
    exited,           // value: exit code
    signalled,        // value: signal
    not_started,      // value: errno of execve
    supervisor_lost,  // the supervisor was killed, and the rank with it
    agent_lost,       // its host's agent, which reports its end, is lost
  };
  int rank = 0;
  std::string host;
  pid_t pid = 0;
  Kind kind = Kind::exited;
  int value = 0;
  bool core_dumped = false;
  std::int64_t time_ns = 0;  // when the end was noticed, on the launcher's clock
  // The last signal that dabkerun had sent to the rank before it began to end; 0: it ended by itself.
  int our_signal = 0;
  bool is_blamed = false;  // another rank has named it as the reason of its own end
  // "left the job normally ...", if others still had work to do with it.
  std::string early_leave;
  // For `signalled`: the sender of the signal, if dabkerun has forwarded it, "pid 71 (slurmstepd)".
  std::string signal_sender;
  std::vector<std::string> last_lines;  // of its output, oldest first
  // For `agent_lost`: srun was killed, and Slurm then kills the processes that it has started.
  bool is_of_srun = false;
};

/// Takes a status as returned by waitpid.
void set_wait_status(RankEnd& end, int wait_status);

/// "SIGKILL", or "signal 42".
std::string signal_name(int signal);
/// The exit code in a shell's form: the code itself, 128 + signal, 126 or 127.
int exit_code_of(const RankEnd& end);
bool is_failure(const RankEnd& end);
/// "exited with status code 3", "was killed by SIGSEGV (signal 11)", ...
std::string describe(const RankEnd& end);
/// The meaning of the end, and the remedy; empty if there is nothing to add.
std::string meaning_of(const RankEnd& end);

/// Returns a rank that has left the others without a failure of its own. Null if there is none, or if another
/// failure came first.
const RankEnd* early_leaver(const std::vector<RankEnd>& ends, const RankEnd& first);

/// Returns the failure that came first. Ranks that lost their peer end very soon, and on a busy machine their
/// ends are noticed in any order. So these rules decide, in this order:
///   1. Ranks that ended by themselves come before ranks that dabkerun ended.
///   2. A crash comes before an exit with an error.
///   3. The loss of processes that Slurm has started comes first; some of them may have been seen to die
///      before.
///   4. A rank whose loss others have reported comes first.
///   5. The earlier time comes first.
const RankEnd* first_failure(const std::vector<RankEnd>& ends);

struct Outcome {
  int exit_code = 0;
  std::vector<std::string> lines;        // for stderr, without "dabkerun: "
  std::optional<int> first_failed_rank;  // empty also if a signal has ended the job
};

/// `interrupted_by` is the signal that asked dabkerun to end the job.
Outcome conclude(const std::vector<RankEnd>& ends, std::optional<int> interrupted_by);

/// Returns a text such as "0-3,7".
std::string rank_list(std::vector<int> ranks);

}  // namespace dabke::launcher

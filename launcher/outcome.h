// What became of a job: which rank failed first, what followed from it, and the code that dabkerun returns.
// Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dabke {

/// How one rank ended, as far as is known.
struct RankEnd {
  enum class Kind {
    exited,           // value: exit code
    signalled,        // value: signal
    not_started,      // value: errno of execve
    supervisor_lost,  // the supervisor was killed, and the rank with it
  };
  int rank = 0;
  std::string host;
  pid_t pid = 0;
  Kind kind = Kind::exited;
  int value = 0;
  bool core_dumped = false;
  std::int64_t time_ns = 0;       // when, by the clock of its host
  bool after_our_signal = false;  // dabkerun had told it to end
};

/// As from waitpid.
void set_wait_status(RankEnd& end, int wait_status);

/// "SIGKILL", or "signal 42".
std::string signal_name(int signal);
/// As a shell gives it: the code itself, 128 + signal, 126 or 127.
int exit_code_of(const RankEnd& end);
bool is_failure(const RankEnd& end);
/// "exited with status code 3", "was killed by SIGSEGV (signal 11)", ...
std::string describe(const RankEnd& end);
/// What that means and what to do; empty when there is nothing to add.
std::string meaning_of(const RankEnd& end);

/// The failure that came first: by time, but within a moment a crash goes before an error exit, because a
/// rank that lost its peer ends so soon that the clock may show both in either order.
const RankEnd* first_failure(const std::vector<RankEnd>& ends);

struct Outcome {
  int exit_code = 0;
  std::vector<std::string> lines;  // for stderr, without "dabkerun: "
};

/// `interrupted_by`: the signal that told dabkerun to end the job.
Outcome conclude(const std::vector<RankEnd>& ends, std::optional<int> interrupted_by);

/// "0-3,7"
std::string rank_list(std::vector<int> ranks);

}  // namespace dabke

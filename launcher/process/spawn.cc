#include "launcher/process/spawn.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace dabke::launcher {

Result<SpawnedWorker> spawn_worker(const SpawnRequest& request, const InheritedState& inherited) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("cannot make the channel to a rank's supervisor", errno);
  }
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  const bool has_input = request.input >= 0;
  const Fd nothing(has_input ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!has_input && !nothing) return system_error("cannot open /dev/null", errno);

  WorkerProcess worker{.program = request.program,
                       .arguments = request.arguments,
                       .environment = request.environment,
                       .cores = request.cores,
                       .rank = request.rank,
                       .input = has_input ? request.input : nothing.get(),
                       .output = request.output,
                       .error_output = request.error_output,
                       .channel = theirs.get(),
                       .grace = request.grace,
                       .stop_limit = request.stop_limit,
                       .inherited = inherited};
  const pid_t pid = ::fork();
  if (pid == 0) supervise(worker);
  if (pid < 0) return system_error("cannot start another process (see ulimit -u)", errno);
  return SpawnedWorker{pid, std::move(ours)};
}

}  // namespace dabke::launcher

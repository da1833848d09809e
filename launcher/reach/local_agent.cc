#include "launcher/reach/local_agent.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <exception>

#include "launcher/process/descriptors.h"

namespace dabke::launcher {
namespace {

Fd copy_of(const Fd& fd) { return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3)); }

[[noreturn]] void become_agent(AgentStart start) {
  std::vector<int> kept{start.in.get(), start.out.get(), start.input.get()};
  for (const OutputEnds& ends : start.outputs) {
    kept.push_back(ends.output.get());
    kept.push_back(ends.error_output.get());
  }
  close_all_but(kept);
  stand_in_null({0, 1, 2});
  int code = 1;
  try {
    code = run_agent(std::move(start));
  } catch (const std::exception&) {
    // No memory: the supervisors notice that their agent is gone, and the launcher notices that it has ended.
  }
  ::_exit(code);
}

}  // namespace

Result<AgentProcess> start_local_agent(std::vector<OutputEnds> outputs, Fd input,
                                       const InheritedState& inherited) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("cannot make the channel to the agent of this host", errno);
  Fd ours(ends[0]), theirs(ends[1]);
  AgentStart start{.in = copy_of(theirs),
                   .out = std::move(theirs),
                   .outputs = std::move(outputs),
                   .input = std::move(input),
                   .inherited = inherited};
  AgentProcess process{.pid = -1, .in = copy_of(ours), .out = std::move(ours), .words = Fd(), .command = {}};
  if (!start.in || !process.in)
    return system_error("cannot make the channel to the agent of this host", errno);
  process.pid = ::fork();
  if (process.pid == 0) become_agent(std::move(start));
  if (process.pid < 0) return system_error("cannot start another process (see ulimit -u)", errno);
  return process;
}

}  // namespace dabke::launcher

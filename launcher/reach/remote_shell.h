// How an agent is brought to another host: by ssh, or by what stands in for it.
#pragma once

#include <string>
#include <vector>

#include "launcher/reach/agent_link.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

struct RemoteShell {
  std::string program;  // words as of a shell, instead of ssh; empty: ssh
  std::string port;     // empty: ssh's own choice, as for the next two
  std::string identity_file;
  std::string user;
  std::string arguments;  // further words for ssh, as of a shell
  std::string dabkerun;   // there
};

/// The words that start the agent on `host`. It says nothing of the job: all that travels in frames. Pure.
std::vector<std::string> remote_command(const RemoteShell& shell, const std::string& host);

/// One line, as a POSIX shell would take it. Pure.
std::string as_shell_words(const std::vector<std::string>& words);

/// Starts a program that brings agents, in a session of its own: what the terminal sends is the launcher's alone.
Result<AgentProcess> start_shell(std::vector<std::string> words);
Result<AgentProcess> start_remote_agent(const RemoteShell& shell, const std::string& host);

/// One line: why no agent has come to `host`, and what to do. `words` is what the shell has said. Pure.
std::string why_no_agent(const RemoteShell& shell, const std::string& host, int exit_code,
                         const std::vector<std::string>& words);

}  // namespace dabke::launcher

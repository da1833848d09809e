// Starts an agent on another host: by ssh, or by a replacement of it.
#pragma once

#include <string>
#include <vector>

#include "launcher/reach/agent_link.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

struct RemoteShell {
  std::string program;  // words, in a shell's syntax, instead of ssh; empty: ssh
  std::string port;     // empty: ssh's own choice, as for the next two
  std::string identity_file;
  std::string user;
  std::string arguments;  // additional words for ssh, in a shell's syntax
  std::string dabkerun;   // on the other host
};

/// Returns the words that start the agent on `host`. They contain nothing about the job: all of that travels
/// in frames. Pure.
std::vector<std::string> remote_command(const RemoteShell& shell, const std::string& host);

/// Returns one line, in a POSIX shell's syntax. Pure.
std::string as_shell_words(const std::vector<std::string>& words);

/// Starts a program that starts agents, in a session of its own: signals of the terminal reach only the
/// launcher.
Result<AgentProcess> start_shell(std::vector<std::string> words);
Result<AgentProcess> start_remote_agent(const RemoteShell& shell, const std::string& host);

/// Returns one line: why no agent has come to `host`, and the remedy. `words` is the stderr of the shell.
/// Pure.
std::string why_no_agent(const RemoteShell& shell, const std::string& host, int exit_code,
                         const std::vector<std::string>& words);

}  // namespace dabke::launcher

#include "launcher/reach/remote_shell.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/process/supervisor.h"
#include "launcher/reach/shell_words.h"

extern char** environ;

namespace dabke::launcher {
namespace {

struct ShellPipe {
  Fd read_end, write_end;
};

Result<ShellPipe> make_shell_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe to a remote shell", errno);
  return ShellPipe{Fd(ends[0]), Fd(ends[1])};
}

/// Quotes a word so that a POSIX shell takes it as one word.
std::string quoted_for_shell(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=+,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Returns no words if the line does not split: parse_command_line() has refused such lines.
std::vector<std::string> words_of(const std::string& text) {
  auto words = split_shell_words(text);
  return words.is_ok() ? words.take() : std::vector<std::string>();
}

/// A text of ssh, its meaning, and the remedy.
struct Explanation {
  std::string_view said, meaning;
};
constexpr std::array kExplanations{
    Explanation{"IDENTIFICATION HAS CHANGED",
                "its host key has changed: another machine may have taken its place; if it was reinstalled, "
                "remove the old key with ssh-keygen -R"},
    Explanation{"Host key verification failed",
                "unknown host key: connect to it once by hand, or add its key to known_hosts"},
    Explanation{"Could not resolve hostname", "unknown host name: check its spelling, or give its address"},
    Explanation{"Permission denied",
                "permission denied without a password: check --ssh-user and --ssh-identity-file, or copy "
                "your key there with ssh-copy-id"},
    Explanation{"Connection refused", "connection refused: check --ssh-port, and that sshd runs"},
    Explanation{"No route to host", "it cannot be reached: check that it is up, and its address"},
    Explanation{"Network is unreachable", "it cannot be reached: check its address and this host's routes"},
    Explanation{"timed out", "it does not answer: check that it is up, its address, and firewalls"},
};

}  // namespace

std::vector<std::string> remote_command(const RemoteShell& shell, const std::string& host) {
  std::vector<std::string> words = words_of(shell.program);
  if (words.empty()) {
    words = {"ssh", "-T"};
    for (const char* option : {"BatchMode=yes", "ClearAllForwardings=yes", "ControlMaster=no",
                               "ControlPath=none", "RemoteCommand=none"}) {
      words.insert(words.end(), {"-o", option});
    }
    if (!shell.port.empty()) words.insert(words.end(), {"-p", shell.port});
    if (!shell.identity_file.empty()) words.insert(words.end(), {"-i", shell.identity_file});
    if (!shell.user.empty()) words.insert(words.end(), {"-l", shell.user});
    const std::vector<std::string> further = words_of(shell.arguments);
    words.insert(words.end(), further.begin(), further.end());
    words.emplace_back("--");
  }
  words.push_back(host);
  words.push_back(fmt::format("exec {} --agent", quoted_for_shell(shell.dabkerun)));
  return words;
}

std::string as_shell_words(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(quoted_for_shell(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

Result<AgentProcess> start_remote_agent(const RemoteShell& shell, const std::string& host) {
  auto started = start_shell(remote_command(shell, host));
  if (started.is_ok()) return started;
  return Status(
      started.status().code(),
      fmt::format("{}: {}", started.status().message(),
                  shell.program.empty() ? "install an ssh client, or name a replacement with --remote-shell"
                                        : "check --remote-shell"));
}

Result<AgentProcess> start_shell(std::vector<std::string> words) {
  DABKE_ASSIGN_OR_RETURN(ShellPipe in, make_shell_pipe());
  DABKE_ASSIGN_OR_RETURN(ShellPipe out, make_shell_pipe());
  DABKE_ASSIGN_OR_RETURN(ShellPipe error, make_shell_pipe());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, in.read_end.get(), 0);
  ::posix_spawn_file_actions_adddup2(&files, out.write_end.get(), 1);
  ::posix_spawn_file_actions_adddup2(&files, error.write_end.get(), 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t blocked, standard;
  ::sigemptyset(&blocked);
  ::sigemptyset(&standard);
  // When a batch system signals all processes of a step, these signals would end ssh. srun handles them by
  // itself.
  for (const int signal : kForwardedSignals) ::sigaddset(&blocked, signal);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGHUP, SIGTERM}) ::sigaddset(&standard, signal);
  ::posix_spawnattr_setsigmask(&attributes, &blocked);
  ::posix_spawnattr_setsigdefault(&attributes, &standard);
  ::posix_spawnattr_setflags(
      &attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID));
  AgentProcess process{.pid = -1,
                       .in = std::move(out.read_end),
                       .out = std::move(in.write_end),
                       .words = std::move(error.read_end),
                       .command = {}};
  const int failure =
      ::posix_spawnp(&process.pid, words[0].c_str(), &files, &attributes, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) return system_error(fmt::format("cannot run {}", words[0]), failure);
  ::fcntl(process.words.get(), F_SETFL, O_NONBLOCK);
  process.command = as_shell_words(words);
  return process;
}

std::string why_no_agent(const RemoteShell& shell, const std::string& host, int exit_code,
                         const std::vector<std::string>& words) {
  const auto is_said = [&](const Explanation& each) {
    return std::ranges::any_of(
        words, [&](const std::string& line) { return line.find(each.said) != std::string::npos; });
  };
  const auto found = std::ranges::find_if(kExplanations, is_said);
  if (exit_code == 255 && found != kExplanations.end())
    return fmt::format("host {}: {}", host, found->meaning);
  if (exit_code == 126 || exit_code == 127) {
    return fmt::format(
        "host {}: cannot run {} there: install Dabke in the same place, or give its path with "
        "--remote-dabkerun",
        host, shell.dabkerun);
  }
  return fmt::format("host {}: no agent has started, and {} exited with status code {}", host,
                     shell.program.empty() ? "ssh" : shell.program, exit_code);
}

}  // namespace dabke::launcher

#include "launcher/verdict/outcome.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

namespace dabke::launcher {
namespace {

/// True if the rank ended by the signal that dabkerun sent.
bool is_our_doing(const RankEnd& end) {
  return end.kind == RankEnd::Kind::signalled && end.our_signal != 0 &&
         (end.value == end.our_signal || end.value == SIGTERM);
}

/// True for an end that is not a consequence of another rank's loss. Such a loss may only make a rank abort,
/// because of an uncaught exception.
bool is_crash(const RankEnd& end) {
  if (end.our_signal != 0) return false;
  // A shell above the program reports the program's signal in this way.
  const bool by_shell = end.kind == RankEnd::Kind::exited && end.value > 128;
  if (end.kind == RankEnd::Kind::exited && !by_shell) return false;
  if (end.kind == RankEnd::Kind::supervisor_lost || end.kind == RankEnd::Kind::not_started ||
      end.kind == RankEnd::Kind::agent_lost)
    return true;
  switch (by_shell ? end.value - 128 : end.value) {
    case SIGKILL:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGSYS:
    case SIGXCPU:
    case SIGXFSZ: return true;
    case SIGABRT:
    case SIGPIPE: return false;
    default: return !by_shell;
  }
}

/// True if `a` came before `b`. Both are failures.
bool is_earlier(const RankEnd& a, const RankEnd& b) {
  const auto order = [](const RankEnd& end) {
    return std::tuple(end.our_signal != 0, !is_crash(end), !end.is_of_srun, !end.is_blamed, end.time_ns);
  };
  return order(a) < order(b);
}

std::string meaning_of_signal(const RankEnd& end) {
  if (!end.signal_sender.empty())
    return fmt::format(
        "dabkerun forwarded that signal, which came from {}, and the rank has no handler for it",
        end.signal_sender);
  switch (end.value) {
    case SIGKILL:
      return "killed from outside: by kill -9, a batch system, or the kernel when memory ran out (see dmesg)";
    case SIGSEGV: return "invalid memory access; a debugger or a core file shows where";
    case SIGBUS:
      return "memory that it mapped is not there: a mapped file was truncated, or memory or /dev/shm is full";
    case SIGABRT: return "it called abort: an assertion or an uncaught exception; see its last lines";
    case SIGFPE: return "arithmetic error, such as an integer division by zero";
    case SIGILL:
      return "an instruction that this processor lacks: the program was built for another processor";
    case SIGTERM: return "somebody asked this process to end";
    case SIGINT: return "somebody interrupted this process";
    case SIGHUP: return "its terminal was closed";
    case SIGPIPE: return "it wrote to a closed pipe or connection";
    case SIGXCPU: return "it reached its limit of CPU time (ulimit -t)";
    case SIGXFSZ: return "it reached its limit of file size (ulimit -f)";
    default: return "";
  }
}

/// Returns the shared library whose absence ended a program, from its last line; empty if that line names
/// none.
std::string missing_library(const std::vector<std::string>& last_lines) {
  if (last_lines.empty()) return "";
  const std::string& line = last_lines.back();
  constexpr std::string_view kMusl = "Error loading shared library ";
  if (line.starts_with(kMusl)) return line.substr(kMusl.size(), line.find(':') - kMusl.size());
  // A text of glibc's loader, and of dlopen(), which Python and others print.
  const auto end = line.find(": cannot open shared object file");
  if (end == std::string::npos) return "";
  const auto before = line.substr(0, end).find_last_of(" '\"");
  return line.substr(before == std::string::npos ? 0 : before + 1,
                     end - (before == std::string::npos ? 0 : before + 1));
}

std::string meaning_of_exit(const RankEnd& end) {
  if (const std::string library = missing_library(end.last_lines); !library.empty()) {
    return fmt::format(
        "the shared library {} was not found: install it there, or give its directory with -x "
        "LD_LIBRARY_PATH=DIRECTORY",
        library);
  }
  if (end.value == 126) return "a program or script could not be run; see its last lines";
  if (end.value == 127) return "a program or a shared library was not found; see its last lines";
  if (end.value > 128 && end.value <= 128 + SIGRTMAX)
    return fmt::format("a shell reports a program that was killed by {}", signal_name(end.value - 128));
  if (end.last_lines.empty()) return "the program wrote nothing";
  return fmt::format("see its last lines, marked [{}]", end.rank);
}

/// Returns a text such as "ranks 0-2 exited with status code 1; rank 3 was ended by dabkerun".
std::string consequences(const std::vector<RankEnd>& ends, const RankEnd& first) {
  std::map<std::string, std::vector<int>> groups;
  for (const RankEnd& end : ends) {
    if (end.rank == first.rank || !is_failure(end)) continue;
    const bool is_ours = is_our_doing(end);
    if (is_ours && end.value == SIGTERM) {
      groups["ended by dabkerun"].push_back(end.rank);
    } else if (is_ours && end.value == SIGKILL) {
      groups["killed by dabkerun after SIGTERM did not end it"].push_back(end.rank);
    } else {
      groups[describe(end)].push_back(end.rank);
    }
  }
  std::string out;
  for (const auto& [what, ranks] : groups) {
    out += fmt::format("{}{} {} {}", out.empty() ? "" : "; ", ranks.size() == 1 ? "rank" : "ranks",
                       rank_list(ranks), what);
  }
  return out;
}

}  // namespace

void set_wait_status(RankEnd& end, int wait_status) {
  end.kind = WIFSIGNALED(wait_status) ? RankEnd::Kind::signalled : RankEnd::Kind::exited;
  end.value = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  end.core_dumped = WIFSIGNALED(wait_status) && WCOREDUMP(wait_status);
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

int exit_code_of(const RankEnd& end) {
  switch (end.kind) {
    case RankEnd::Kind::exited: return end.value;
    case RankEnd::Kind::signalled: return 128 + end.value;
    case RankEnd::Kind::not_started: return end.value == ENOENT ? 127 : 126;
    case RankEnd::Kind::supervisor_lost: return 128 + SIGKILL;
    case RankEnd::Kind::agent_lost: return 1;
  }
  return 1;
}

bool is_failure(const RankEnd& end) { return exit_code_of(end) != 0; }

std::string describe(const RankEnd& end) {
  switch (end.kind) {
    case RankEnd::Kind::exited: return fmt::format("exited with status code {}", end.value);
    case RankEnd::Kind::signalled:
      return fmt::format("was killed by {} (signal {}{})", signal_name(end.value), end.value,
                         end.core_dumped ? ", core dumped" : "");
    case RankEnd::Kind::not_started:
      return fmt::format("could not be started: {}", std::generic_category().message(end.value));
    case RankEnd::Kind::supervisor_lost: return "was lost: its supervisor process was killed";
    case RankEnd::Kind::agent_lost: return "was lost with the agent of its host";
  }
  return "";
}

std::string meaning_of(const RankEnd& end) {
  switch (end.kind) {
    case RankEnd::Kind::signalled: return meaning_of_signal(end);
    case RankEnd::Kind::not_started:
      return end.value == ENOENT ? "the file exists, but the loader that it was linked for is missing: it "
                                   "was built for another system"
                                 : "";
    case RankEnd::Kind::supervisor_lost: return "kill a rank by its own pid instead";
    case RankEnd::Kind::agent_lost: return "its processes there end by themselves";
    case RankEnd::Kind::exited: break;
  }
  return meaning_of_exit(end);
}

const RankEnd* first_failure(const std::vector<RankEnd>& ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (is_failure(end) && (first == nullptr || is_earlier(end, *first))) first = &end;
  }
  return first;
}

const RankEnd* early_leaver(const std::vector<RankEnd>& ends, const RankEnd& first) {
  if (is_crash(first) || (first.is_blamed && first.early_leave.empty())) return nullptr;
  const RankEnd* leaver = nullptr;
  for (const RankEnd& end : ends) {
    if (!end.early_leave.empty() && (leaver == nullptr || end.time_ns < leaver->time_ns)) leaver = &end;
  }
  return leaver;
}

Outcome conclude(const std::vector<RankEnd>& ends, std::optional<int> interrupted_by) {
  Outcome outcome;
  const RankEnd* first = first_failure(ends);
  if (first == nullptr) return outcome;
  if (interrupted_by) {
    outcome.exit_code = 128 + *interrupted_by;
    outcome.lines.push_back(fmt::format("the job was ended by {}", signal_name(*interrupted_by)));
    std::vector<int> killed;
    for (const RankEnd& end : ends) {
      if (is_our_doing(end) && end.value == SIGKILL) killed.push_back(end.rank);
    }
    if (!killed.empty()) {
      outcome.lines.push_back(fmt::format("killed because they did not end in time: {} {}",
                                          killed.size() == 1 ? "rank" : "ranks", rank_list(killed)));
    }
    return outcome;
  }
  outcome.exit_code = exit_code_of(*first);
  outcome.first_failed_rank = first->rank;
  if (const RankEnd* const leaver = early_leaver(ends, *first)) {
    outcome.lines.push_back(fmt::format("first cause: rank {} on host {} (pid {}) {}", leaver->rank,
                                        leaver->host, leaver->pid, leaver->early_leave));
    if (const std::string rest = consequences(ends, *leaver); !rest.empty())
      outcome.lines.push_back(fmt::format("after that: {}", rest));
    return outcome;
  }
  std::string cause = fmt::format("first failure: rank {} on host {} (pid {}) {}", first->rank, first->host,
                                  first->pid, describe(*first));
  if (const std::string meaning = meaning_of(*first); !meaning.empty()) cause += fmt::format(": {}", meaning);
  outcome.lines.push_back(std::move(cause));
  if (const std::string rest = consequences(ends, *first); !rest.empty()) {
    outcome.lines.push_back(fmt::format("after that: {}", rest));
  }
  return outcome;
}

std::string rank_list(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", ranks[i]);
    if (last != i) out += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace dabke::launcher

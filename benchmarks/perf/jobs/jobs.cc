#include "benchmarks/perf/jobs/jobs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "benchmarks/perf/competitors/competitor.h"
#include "benchmarks/perf/competitors/raw_mpi.h"
#include "benchmarks/perf/jobs/places.h"

namespace dabke::perf {
namespace {

/// A fresh directory, which is removed with this object.
class Scratch {
 public:
  Scratch() : path_((std::filesystem::temp_directory_path() / "dabke-perf-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> launcher_of(const std::string& name, const std::string& path,
                                     const Options& options) {
  const std::string ranks = std::to_string(options.ranks);
  if (name == "dabkerun") return {path, "-np", ranks, "--no-prefix", "--bind-to", options.bind_to};
  if (name == "mpich") return {path, "-np", ranks, "-bind-to", options.bind_to};
  // Open MPI counts slots, and would bind two ranks but not four.
  return {path, "--oversubscribe", "--bind-to", options.bind_to, "-np", ranks};
}

[[noreturn]] void become(std::vector<std::string> command, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // the launcher then ends its ranks
  if (::getppid() != parent) ::_exit(127);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // only dabke-perf prints the table
  if (::geteuid() == 0) {                // as in a container; Open MPI needs these variables then
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
  std::vector<char*> pointers;
  for (std::string& word : command) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  ::_exit(127);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Holds back signals that would end this process, so that nothing is left behind.
class HeldSignals {
 public:
  HeldSignals() {
    ::signal(SIGCHLD, SIG_DFL);  // a process that ignores it cannot wait for its child
    ::sigemptyset(&held_);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) {
      if (!is_ignored(signal)) ::sigaddset(&held_, signal);  // as nohup does
    }
    ::sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  void release() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int wait() const { return ::sigwaitinfo(&held_, nullptr); }

 private:
  sigset_t held_;
  sigset_t before_;
};

/// Runs the command to its end. A signal that would end this process ends the command instead.
Status run_command(const std::vector<std::string>& command, const HeldSignals& signals) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    signals.release();
    become(command, parent);
  }
  const int fork_error = errno;
  int ended_by = 0;
  int status = 0;
  pid_t waited = child;
  while (child > 0 && (waited = ::waitpid(child, &status, WNOHANG)) == 0) {
    const int signal = signals.wait();
    if (signal > 0 && signal != SIGCHLD) ::kill(child, ended_by = signal);
  }
  const int wait_error = errno;
  if (child < 0) return system_error("fork", fork_error);
  if (waited < 0) return system_error("waitpid", wait_error);
  if (ended_by != 0) return {Code::aborted, fmt::format("ended by SIG{}", ::sigabbrev_np(ended_by))};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return {Code::aborted,
          fmt::format("'{}' ended with {}; what its ranks said is above", fmt::join(command, " "), code)};
}

}  // namespace

Launchers find_launchers() {
  Launchers found{.dabkerun = dabkerun_path()};
  if (!mpi_peer_path("mpich").empty()) found.mpich = find_program({"mpirun.mpich", "mpiexec.hydra"});
  if (!mpi_peer_path("openmpi").empty()) found.openmpi = find_program({"mpirun.openmpi", "orterun"});
  return found;
}

Result<std::vector<Job>> plan_jobs(const Options& options, const Launchers& launchers) {
  std::vector<Job> jobs;
  const auto add = [&](const std::string& name, const std::string& path) {
    jobs.push_back({name, launcher_of(name, path, options), options.backends, options.peers});
  };
  const bool wants_mpi = options.wants_backend("mpi") || options.wants_peer("mpi");
  for (const auto& [name, path] :
       {std::pair("mpich", &launchers.mpich), std::pair("openmpi", &launchers.openmpi)}) {
    if (!wants_mpi || (options.mpi != "all" && options.mpi != name)) continue;
    if (!path->empty()) add(name, *path);
    if (path->empty() && options.mpi == name) {
      return Status(
          Code::not_built,
          fmt::format("--mpi is '{}', but its mpirun or dabke-perf's module for it is not there; install the "
                      "Debian packages lib{}-dev and {} and build again, or leave it out",
                      name, name, std::string(name) == "mpich" ? "mpich" : "openmpi-bin"));
    }
  }
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    const bool compares = options.mode == Mode::sweep || options.mode == Mode::latency;
    std::erase_if(jobs[i].backends, [&](const std::string& name) {
      return name != "mpi" && !(compares && "dabke " + name == kReference);
    });
    std::erase_if(jobs[i].peers, [](const std::string& name) { return name != "mpi"; });
  }
  std::erase_if(jobs, [](const Job& job) { return job.backends.empty() && job.peers.empty(); });
  if (!jobs.empty()) return jobs;
  if (launchers.dabkerun.empty()) {
    return Status(Code::not_built,
                  "dabkerun is neither beside dabke-perf nor on the PATH; install it, or add its folder");
  }
  add("dabkerun", launchers.dabkerun);
  std::erase(jobs.back().backends, "mpi");
  std::erase(jobs.back().peers, "mpi");
  if (!jobs.back().backends.empty() || !jobs.back().peers.empty()) return jobs;
  return Status(Code::not_built,
                "only MPI was asked for, and none is there; install the Debian package mpich or openmpi-bin "
                "and build again");
}

Result<std::vector<Row>> run_job(const Job& job, const std::vector<std::string>& arguments) {
  const HeldSignals signals;
  const Scratch scratch;
  const std::string results = scratch.path() + "/results.json";
  std::vector<std::string> command = job.launcher;
  command.push_back(program_path());
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto list = [](const std::vector<std::string>& names) {
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ","));
  };
  command.insert(command.end(),
                 {"--backends", list(job.backends), "--peers", list(job.peers), "--rank-results", results});
  DABKE_RETURN_IF_ERROR(run_command(command, signals));
  std::ifstream file(results);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded()) {
    return Status(Code::transport,
                  fmt::format("the job under {} left no results in {}; ranks on other hosts cannot", job.name,
                              results));
  }
  return rows_from_json(json);
}

}  // namespace dabke::perf

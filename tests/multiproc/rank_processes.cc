#include "tests/multiproc/rank_processes.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "tests/facts.h"
#include "tests/send_signal.h"

namespace dabke::test {
namespace {

constexpr auto kLook = std::chrono::milliseconds(5);

pid_t spawn(std::string program, std::string argument, const std::vector<std::string>& environment,
            const std::string& output) {
  std::vector<char*> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.push_back(*entry);
  for (const std::string& entry : environment) variables.push_back(const_cast<char*>(entry.c_str()));
  variables.push_back(nullptr);
  char* arguments[] = {program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + program + ": " + std::strerror(error));
  return pid;
}

}  // namespace

RankProcesses::RankProcesses(int size, const std::string& what)
    : RankProcesses(size, RANK_WORKER, what, {}) {}

RankProcesses::RankProcesses(int size, const std::string& program, const std::string& what,
                             const std::vector<std::string>& environment) {
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> own = {"DABKE_RANK=" + std::to_string(rank),
                                    "DABKE_SIZE=" + std::to_string(size),
                                    "DABKE_RENDEZVOUS=file:" + place_.path()};
    own.insert(own.end(), environment.begin(), environment.end());
    start(program, what, own);
  }
}

void RankProcesses::start(const std::string& program, const std::string& argument,
                          const std::vector<std::string>& environment) {
  const std::string output = place_.path() + "/" + file(static_cast<int>(ranks_.size()));
  ranks_.push_back({spawn(program, argument, environment, output), -1});
}

RankProcesses::~RankProcesses() {
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    if (exit_code(rank, std::chrono::milliseconds(0)) >= 0) continue;
    signal(rank, SIGKILL);
    exit_code(rank, std::chrono::seconds(10));
  }
}

void RankProcesses::signal(int rank, int signal) const {
  send_signal(ranks_[static_cast<std::size_t>(rank)].pid, signal);
}

std::string RankProcesses::output(int rank) const { return place_.text_of(file(rank)); }

bool RankProcesses::wait_for_output(int rank, const std::string& text) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(300);
  while (output(rank).find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

int RankProcesses::exit_code(int rank, std::chrono::milliseconds limit) {
  Process& process = ranks_[static_cast<std::size_t>(rank)];
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (process.code < 0) {
    int status = 0;
    if (::waitpid(process.pid, &status, WNOHANG) == process.pid) {
      process.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    } else if (std::chrono::steady_clock::now() >= deadline) {
      break;
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
  return process.code;
}

}  // namespace dabke::test

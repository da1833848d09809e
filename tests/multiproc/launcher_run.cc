#include "tests/multiproc/launcher_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/facts.h"
#include "tests/send_signal.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  Fd read_end, write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Makes the terminal at `path` the caller's stdin, stdout and stderr. The caller must not lead a process
/// group.
void take_terminal(const std::string& path) {
  ::setsid();
  const int fd = ::open(path.c_str(), O_RDWR);  // a session's first terminal becomes its controlling terminal
  for (int standard = 0; standard < 3; ++standard) ::dup2(fd, standard);
  if (fd > 2) ::close(fd);
}

/// Returns /proc/PID/stat from the state's letter on; the parent's pid comes next. Empty if there is no such
/// process.
std::string state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  return name_end == std::string::npos ? "" : line.substr(name_end + 2);
}

}  // namespace

LauncherRun::LauncherRun(std::vector<std::string> arguments, const LauncherSetup& setup)
    : begin_(std::chrono::steady_clock::now()) {
  Pipe input = make_pipe(), out = make_pipe(), error = make_pipe();
  const std::string program = setup.program.empty() ? DABKERUN : setup.program;
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  // A signal for the child would run the handlers of the test until the child has reset them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = ::fork();
  if (pid_ != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    ::dup2(input.read_end.get(), 0);
    ::dup2(out.write_end.get(), 1);
    ::dup2(setup.one_output ? 1 : error.write_end.get(), 2);
    if (!setup.terminal.empty()) take_terminal(setup.terminal);
    for (const std::string& variable : setup.environment) ::putenv(::strdup(variable.c_str()));
    // The test runner may ignore signals, as a shell's background job does. The program under test starts
    // with the defaults.
    for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
    for (const int signal : setup.ignored_signals) ::signal(signal, SIG_IGN);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::execvp(program.c_str(), pointers.data());
    ::_exit(127);
  }
  out_ = std::move(out.read_end);
  error_ = std::move(error.read_end);
  // The input fits into the pipe, so write() does not block.
  if (::write(input.write_end.get(), setup.input.data(), setup.input.size()) < 0)
    throw std::runtime_error("write");
}

LauncherRun::~LauncherRun() {
  if (pid_ <= 0) return;
  send_signal(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void LauncherRun::signal(int signal) const { send_signal(pid_, signal); }

bool LauncherRun::read_some(std::chrono::milliseconds limit) {
  std::array<pollfd, 2> entries{{{out_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}}};
  if (::poll(entries.data(), entries.size(), static_cast<int>(limit.count())) <= 0) return false;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents == 0) continue;
    std::array<char, 64 << 10> chunk;
    const ssize_t got = ::read(entries[i].fd, chunk.data(), chunk.size());
    if (got > 0) (i == 0 ? result_.out : result_.error).append(chunk.data(), static_cast<std::size_t>(got));
    if (got <= 0) (i == 0 ? out_ : error_) = Fd();
  }
  return true;
}

bool LauncherRun::wait_for(const std::string& stream, const std::string& text, int times) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  for (;;) {
    int found = 0;
    for (auto at = stream.find(text); at != std::string::npos; at = stream.find(text, at + 1)) ++found;
    if (found >= times) return true;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if ((!out_ && !error_) || left <= 0ms) return false;
    read_some(left);
  }
}

Finished LauncherRun::finish(std::chrono::seconds limit) {
  const auto deadline = begin_ + limit;
  while ((out_ || error_) && std::chrono::steady_clock::now() < deadline) read_some(100ms);
  if (out_ || error_)
    throw std::runtime_error("dabkerun did not end within " + std::to_string(limit.count()) +
                             " s; it has written: " + result_.out + result_.error);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  result_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result_.took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin_);
  return result_;
}

std::string make_remote_shell(const TemporaryDirectory& directory) {
  const std::string path = directory.path() + "/shell";
  std::ofstream(path) << "#!/bin/sh\nshift\nexec sh -c \"$*\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

pid_t parent_of(pid_t pid) {
  const std::string state = state_of(pid);
  return state.size() > 2 ? std::atoi(state.c_str() + 2) : -1;
}

namespace {

bool has_variable(const std::filesystem::path& process, const std::string& variable) {
  std::ifstream environment(process / "environ", std::ios::binary);
  for (std::string each; std::getline(environment, each, '\0');) {
    if (each == variable) return true;
  }
  return false;
}

}  // namespace

std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (has_variable(entry.path(), variable)) found.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return found;
}

pid_t worker_with(const std::string& variable, int worker) {
  for (const pid_t pid : processes_with(variable)) {
    if (has_variable("/proc/" + std::to_string(pid), "DABKE_ELASTIC_WORKER=" + std::to_string(worker)))
      return pid;
  }
  return 0;
}

bool is_gone(pid_t pid) {
  const std::string state = state_of(pid);
  return state.empty() || state[0] == 'Z';
}

bool is_gone_within(pid_t pid, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!is_gone(pid)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> sorted_lines(const std::string& text) {
  auto lines = lines_of(text);
  std::ranges::sort(lines);
  return lines;
}

}  // namespace dabke::test

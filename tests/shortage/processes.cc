#include "tests/shortage/processes.h"

#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "tests/temporary_directory.h"

namespace dabke::test {
namespace {

using Time = std::chrono::steady_clock;

int output_of_child = -1;

/// Prints the stack of a crashed child on the child's output, so that it is not a crash of the test program.
void tell_where(int signal) {
  std::array<void*, 64> frames{};
  ::backtrace_symbols_fd(frames.data(), ::backtrace(frames.data(), static_cast<int>(frames.size())),
                         output_of_child);
  ::_exit(128 + signal);
}

struct Child {
  pid_t pid = -1;
  int output = -1;
  Ended ended;
};

/// Reads once. Returns true if the child has closed its end, false if more may come.
bool read_some(Child& child) {
  std::array<char, 4096> bytes;
  const ssize_t count = ::read(child.output, bytes.data(), bytes.size());
  if (count > 0) {
    child.ended.said.append(bytes.data(), static_cast<std::size_t>(count));
    return false;
  }
  ::close(child.output);
  child.output = -1;
  return true;
}

void read_all(std::vector<Child>& children, Time::time_point deadline) {
  std::size_t open = children.size();
  while (open > 0) {
    std::vector<pollfd> waiting;
    for (const Child& child : children) waiting.push_back({child.output, POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Time::now());
    if (left.count() <= 0 || ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) == 0)
      return;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (waiting[i].revents != 0 && read_some(children[i])) --open;
    }
  }
}

}  // namespace

std::vector<std::vector<Ended>> run_jobs(int jobs, int size,
                                         const std::function<void(int job, int rank)>& body,
                                         std::chrono::seconds limit) {
  std::vector<TemporaryDirectory> places(static_cast<std::size_t>(jobs));
  std::vector<Child> children;
  for (int job = 0; job < jobs; ++job) {
    const std::string& place = places[static_cast<std::size_t>(job)].path();
    for (int rank = 0; rank < size; ++rank) {
      std::array<int, 2> ends{};
      if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
      const pid_t pid = ::fork();
      if (pid == 0) {
        output_of_child = ends[1];
        ::setenv("DABKE_TEST_PLACE", place.c_str(), 1);
        if (size > 1) {
          ::setenv("DABKE_RANK", std::to_string(rank).c_str(), 1);
          ::setenv("DABKE_SIZE", std::to_string(size).c_str(), 1);
          ::setenv("DABKE_RENDEZVOUS", ("file:" + place).c_str(), 1);
        }
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(fault, tell_where);
        try {
          body(job, rank);
        } catch (const std::exception& error) {
          say(std::string("thrown: ") + error.what());
          ::_exit(99);
        }
        ::_exit(0);
      }
      ::close(ends[1]);
      children.push_back({pid, ends[0], {}});
    }
  }
  read_all(children, Time::now() + limit);
  std::vector<std::vector<Ended>> ended(static_cast<std::size_t>(jobs));
  for (std::size_t i = 0; i < children.size(); ++i) {
    Child& child = children[i];
    const bool hangs = child.output >= 0;
    if (hangs) ::kill(child.pid, SIGKILL);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (hangs) ::close(child.output);
    child.ended.code = hangs ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    ended[i / static_cast<std::size_t>(size)].push_back(std::move(child.ended));
  }
  return ended;
}

std::vector<Ended> run_processes(int size, const std::function<void(int rank)>& body,
                                 std::chrono::seconds limit) {
  return run_jobs(
      1, size, [&](int, int rank) { body(rank); }, limit)[0];
}

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(output_of_child, text.data(), text.size()) < 0) std::abort();
}

int times(const char* variable, int by_itself) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? by_itself : std::atoi(text);
}

}  // namespace dabke::test

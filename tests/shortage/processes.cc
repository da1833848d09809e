#include "tests/shortage/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace dabke::test {
namespace {

using Time = std::chrono::steady_clock;

int output_of_child = -1;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char path[] = "/tmp/dabke-shortage-XXXXXX";
    if (::mkdtemp(path) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = path;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Child {
  pid_t pid = -1;
  int output = -1;
  Ended ended;
};

/// Until the child has closed its end; false: there is more to come.
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

std::vector<Ended> run_processes(int size, const std::function<void(int rank)>& body,
                                 std::chrono::seconds limit) {
  const TemporaryDirectory place;
  std::vector<Child> children(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    const pid_t pid = ::fork();
    if (pid == 0) {
      output_of_child = ends[1];
      if (size > 1) {
        ::setenv("DABKE_RANK", std::to_string(rank).c_str(), 1);
        ::setenv("DABKE_SIZE", std::to_string(size).c_str(), 1);
        ::setenv("DABKE_RENDEZVOUS", ("file:" + place.path()).c_str(), 1);
      }
      body(rank);
      ::_exit(0);
    }
    ::close(ends[1]);
    children[static_cast<std::size_t>(rank)] = {pid, ends[0], {}};
  }
  read_all(children, Time::now() + limit);
  std::vector<Ended> ended;
  for (Child& child : children) {
    const bool hangs = child.output >= 0;
    if (hangs) ::kill(child.pid, SIGKILL);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (hangs) ::close(child.output);
    child.ended.code = hangs ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    ended.push_back(std::move(child.ended));
  }
  return ended;
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

// A forked child of the test, for code that would end the test's own process or leave traces in it.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/send_signal.h"

namespace dabke::test {

/// A forked child, which exits with the status that `body()` returns. The owner kills it if it still runs.
class ChildProcess {
 public:
  template <class Body>
  explicit ChildProcess(Body body) : pid_(::fork()) {
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ != 0) return;
    int status = kThrown;
    try {
      status = body();
    } catch (const std::exception& error) {  // the exception must not reach the rest of the test
      std::fprintf(stderr, "a child of the test threw: %s\n", error.what());
    } catch (...) {
      std::fputs("a child of the test threw\n", stderr);
    }
    ::_exit(status);
  }
  ~ChildProcess() {
    if (has_been_waited_for_) return;
    kill();
    wait();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void kill(int signal = SIGKILL) const { send_signal(pid_, signal); }
  /// Waits until the child has ended. Returns its status, as waitpid reports it.
  int wait() {
    if (!std::exchange(has_been_waited_for_, true)) ::waitpid(pid_, &status_, 0);
    return status_;
  }
  /// Waits until the child has stopped or ended.
  void wait_until_stopped() {
    ::waitpid(pid_, &status_, WUNTRACED);
    has_been_waited_for_ = !WIFSTOPPED(status_);
  }

 private:
  static constexpr int kThrown = 99;

  const pid_t pid_;
  int status_ = -1;
  bool has_been_waited_for_ = false;
};

/// Runs `body()` in a child, which exits with the result. Returns the child's status as waitpid reports it: 0
/// is success.
template <class Body>
int status_in_child(Body body) {
  return ChildProcess(std::move(body)).wait();
}

/// The text that `say()` returns in a child of this process.
template <class Say>
std::string text_in_child(Say say) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  ChildProcess child([&] {
    const std::string text = say();
    (void)!::write(ends[1], text.data(), text.size());
    return 0;
  });
  ::close(ends[1]);
  std::string text;
  char some[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], some, sizeof some)) > 0;)
    text.append(some, static_cast<std::size_t>(got));
  ::close(ends[0]);
  return child.wait() == 0 ? text : "the child has crashed";
}

}  // namespace dabke::test

// How a supervisor ends its rank, and an agent ends orphans, on a machine that lets both run late.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "launcher/process/orphans.h"
#include "launcher/process/output_ends.h"
#include "launcher/process/spawn.h"
#include "tests/child_process.h"
#include "tests/patience.h"
#include "tests/send_signal.h"

namespace dabke::test {
using namespace launcher;
namespace {

using namespace std::chrono_literals;

/// Waits until the rank has written the word.
void wait_for_word(const Fd& output, const std::string& word) {
  std::string said;
  while (said.find(word) == std::string::npos) {
    pollfd entry{output.get(), POLLIN, 0};
    REQUIRE(::poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(test::kPatience).count())) == 1);
    char buffer[100];
    const ssize_t got = ::read(output.get(), buffer, sizeof buffer);
    REQUIRE(got > 0);
    said.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

TEST_CASE("a program that is stopped for longer than the limit is killed, and one that continues is not") {
  auto pipe = make_output_pipe();
  REQUIRE(pipe);
  InheritedState inherited;
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &inherited.open_files) == 0);
  const auto worker = spawn_worker({.program = "/bin/sh",
                                    .arguments = {"sh", "-c", "echo ready; while :; do sleep 0.05; done"},
                                    .environment = {},
                                    .cores = {},
                                    .output = pipe->write_end.get(),
                                    .error_output = pipe->write_end.get(),
                                    .stop_limit = 1s},
                                   inherited);
  REQUIRE(worker);
  wait_for_word(pipe->read_end, "ready");
  Report report;
  REQUIRE(::recv(worker->channel.get(), &report, sizeof report, 0) == sizeof report);
  REQUIRE(report.kind == Report::Kind::started);
  const pid_t program = report.value;
  for (int i = 0; i < 3; ++i) {
    send_signal(program, SIGSTOP);
    std::this_thread::sleep_for(500ms);
    send_signal(program, SIGCONT);
    std::this_thread::sleep_for(50ms);
  }
  CHECK(::recv(worker->channel.get(), &report, sizeof report, MSG_DONTWAIT) < 0);
  send_signal(program, SIGSTOP);
  REQUIRE(::recv(worker->channel.get(), &report, sizeof report, 0) == sizeof report);
  CHECK(report.kind == Report::Kind::stopped);
  REQUIRE(::recv(worker->channel.get(), &report, sizeof report, 0) == sizeof report);
  CHECK(report.kind == Report::Kind::exited);
  CHECK(report.our_signal == SIGKILL);
  ::waitpid(worker->supervisor, nullptr, 0);
}

TEST_CASE("a supervisor that comes late to kill its rank does so, and does not take it for one that hangs") {
  auto pipe = make_output_pipe();
  REQUIRE(pipe);
  InheritedState inherited;
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &inherited.open_files) == 0);
  constexpr auto kGrace = 1s;
  const auto worker = spawn_worker(
      {.program = "/bin/sh",
       .arguments = {"sh", "-c", "trap 'echo deaf' TERM; echo ready; while :; do sleep 0.1; done"},
       .environment = {},
       .cores = {},
       .output = pipe->write_end.get(),
       .error_output = pipe->write_end.get(),
       .grace = kGrace},
      inherited);
  REQUIRE(worker);
  wait_for_word(pipe->read_end, "ready");
  const std::int32_t command = Command::kEnd;
  REQUIRE(::send(worker->channel.get(), &command, sizeof command, MSG_NOSIGNAL) == sizeof command);
  wait_for_word(pipe->read_end, "deaf");
  send_signal(worker->supervisor, SIGSTOP);
  std::this_thread::sleep_for(kGrace + kKillLimit + 200ms);
  send_signal(worker->supervisor, SIGCONT);

  std::vector<Report::Kind> kinds;
  Report report, last;
  while (::recv(worker->channel.get(), &report, sizeof report, 0) == sizeof report) {
    kinds.push_back(report.kind);
    last = report;
  }
  CHECK(kinds == std::vector{Report::Kind::started, Report::Kind::exited});
  CHECK(WIFSIGNALED(last.value));
  CHECK(WTERMSIG(last.value) == SIGKILL);
  CHECK(last.our_signal == SIGKILL);
  CHECK(::waitpid(worker->supervisor, nullptr, 0) == worker->supervisor);
}

TEST_CASE("an agent that comes late to kill orphans does so, and does not take them for ones that hang") {
  Orphans orphans;
  ChildProcess orphan([]() -> int {
    for (;;) ::pause();
  });
  orphans.seek();
  std::this_thread::sleep_for(kKillLimit + 200ms);
  CHECK(orphans.kill({}) == 0);
  CHECK(orphans.due() != kNever);  // it will check again
  CHECK(WTERMSIG(orphan.wait()) == SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace dabke::test

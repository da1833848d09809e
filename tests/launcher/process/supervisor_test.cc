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

/// Waits until the rank has written the word. Returns the output until then.
std::string wait_for_word(const Fd& output, const std::string& word) {
  std::string said;
  while (said.find(word) == std::string::npos) {
    pollfd entry{output.get(), POLLIN, 0};
    REQUIRE(::poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(test::kPatience).count())) == 1);
    char buffer[100];
    const ssize_t got = ::read(output.get(), buffer, sizeof buffer);
    REQUIRE(got > 0);
    said.append(buffer, static_cast<std::size_t>(got));
  }
  return said;
}

/// A supervisor whose program is a shell that runs `script`, with a limit for a stopped rank.
struct WatchedScript {
  Fd output;
  SpawnedWorker worker;
  pid_t program = 0;

  explicit WatchedScript(const std::string& script) {
    auto pipe = make_output_pipe();
    InheritedState inherited;
    REQUIRE(pipe);
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &inherited.open_files) == 0);
    auto spawned = spawn_worker({.program = "/bin/bash",
                                 .arguments = {"bash", "-c", script},
                                 .environment = {"PATH=/usr/bin:/bin"},
                                 .cores = {},
                                 .output = pipe->write_end.get(),
                                 .error_output = pipe->write_end.get(),
                                 .stop_limit = kStopLimit},
                                inherited);
    REQUIRE(spawned);
    output = std::move(pipe->read_end);
    worker = spawned.take();
    const Report started = next_report();
    REQUIRE(started.kind == Report::Kind::started);
    program = started.value;
  }
  Report next_report() {
    Report report;
    REQUIRE(::recv(worker.channel.get(), &report, sizeof report, 0) == sizeof report);
    return report;
  }
  bool has_report() const {
    Report report;
    return ::recv(worker.channel.get(), &report, sizeof report, MSG_DONTWAIT | MSG_PEEK) >= 0;
  }
  void watch(pid_t rank) const {
    const std::int32_t words[]{Command::kWatch, rank};
    REQUIRE(::send(worker.channel.get(), words, sizeof words, MSG_NOSIGNAL) == sizeof words);
  }
  static constexpr auto kStopLimit = 1s;
};

/// The number after `name` in the text.
pid_t pid_after(const std::string& text, const std::string& name) {
  return std::stoi(text.substr(text.find(name) + name.size()));
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

TEST_CASE("a rank below a shell that is stopped for longer than the limit is killed, and the shell with it") {
  WatchedScript script("bash -c 'echo rank $$ ready; while :; do read -t 0.05 <> <(:); done'; true");
  const pid_t rank = pid_after(wait_for_word(script.output, "ready"), "rank ");
  REQUIRE(rank != script.program);
  script.watch(rank);
  for (int i = 0; i < 3; ++i) {
    send_signal(rank, SIGSTOP);
    std::this_thread::sleep_for(500ms);
    send_signal(rank, SIGCONT);
    std::this_thread::sleep_for(300ms);
  }
  CHECK_FALSE(script.has_report());
  send_signal(rank, SIGSTOP);
  const Report stopped = script.next_report();
  CHECK(stopped.kind == Report::Kind::stopped);
  CHECK(stopped.value == rank);
  const Report exited = script.next_report();
  CHECK(exited.kind == Report::Kind::exited);
  CHECK(WTERMSIG(exited.value) == SIGKILL);
  CHECK(exited.our_signal == SIGKILL);
  ::waitpid(script.worker.supervisor, nullptr, 0);
  CHECK(::kill(rank, 0) != 0);
}

TEST_CASE("a rank below a shell may run while its shell and a job in the background are stopped") {
  WatchedScript script(
      "set -m; sleep 1000 & echo job $!; bash -c 'echo rank $$ ready; while :; do sleep 0.05; done'; true");
  const std::string said = wait_for_word(script.output, "ready");
  script.watch(pid_after(said, "rank "));
  send_signal(pid_after(said, "job "), SIGSTOP);
  send_signal(script.program, SIGSTOP);
  std::this_thread::sleep_for(script.kStopLimit + 500ms);
  CHECK_FALSE(script.has_report());
  script.watch(script.worker.supervisor);  // which is not below itself, so nothing changes
  send_signal(pid_after(said, "rank "), SIGSTOP);
  CHECK(script.next_report().value == pid_after(said, "rank "));
  CHECK(script.next_report().kind == Report::Kind::exited);
  ::waitpid(script.worker.supervisor, nullptr, 0);
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

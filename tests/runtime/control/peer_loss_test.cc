#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/patience.h"
#include "tests/runtime/control/channels.h"
#include "tests/send_signal.h"
#include "tests/temporary_directory.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

/// The actions of rank 1, a process of its own, once it is connected. Then it sets a key in the store, and
/// stands still.
using RankOne = void (*)(control::LinkChannel& channel, ForkGuard& guard);

void hold_still() {
  for (;;) ::pause();
}

/// Forks rank 1, and returns its pid. The child never returns into the test.
pid_t start_rank_one(const std::string& directory, RankOne then) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::alarm(240);  // ends even if the test does not
  ForkGuard guard;
  const auto store = store::open_file_store(directory).take();
  auto channel = open_channel(world_of(1, 2), {0}, store, guard);
  if (!channel.is_ok()) ::_exit(2);
  then(**channel, guard);
  (void)store->set("done", "yes");
  hold_still();
  ::_exit(0);
}

/// Ends all children and grandchildren, which this process adopts.
void reap_everybody() {
  const std::string path = fmt::format("/proc/self/task/{}/children", ::syscall(SYS_gettid));
  for (int round = 0; round < 200; ++round) {
    std::ifstream file(path);
    for (pid_t pid = 0; file >> pid;) send_signal(pid, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (::waitpid(-1, nullptr, WNOHANG) < 0) return;
    ::usleep(5000);
  }
}

struct Loss {
  std::string cause;  // empty: the loss was not noticed in time
  std::vector<std::string> messages;
};

/// Runs rank 0: waits until rank 1 has done its part, and kills it. Returns the
/// messages, and the cause of the loss.
Loss lose_rank_one(RankOne then) {
  TemporaryDirectory directory;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t pid = start_rank_one(directory.path(), then);
  ForkGuard guard;
  const auto store = store::open_file_store(directory.path()).take();
  auto opened = open_channel(world_of(0, 2), {1}, store, guard);
  REQUIRE(opened.is_ok());
  const auto channel = opened.take();
  Recorder recorder;
  REQUIRE(store->get("done", deadline_after(60)).is_ok());
  send_signal(pid, SIGKILL);
  poll_until(
      *channel, recorder, [&] { return !recorder.lost.empty(); },
      std::chrono::duration<double>(kPatience).count());
  Loss loss{recorder.lost[1], recorder.messages[1]};
  reap_everybody();
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  return loss;
}

}  // namespace

TEST_CASE("kill -9 of a rank is noticed at once") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto loss = lose_rank_one([](control::LinkChannel&, ForkGuard&) {});
  CHECK_THAT(loss.cause, Contains("rank 1 on host-a") || Contains("of rank 1 on host-a ended"));
}

TEST_CASE("kill -9 of a rank whose forked child lives on is noticed, because the child dropped the links") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto loss = lose_rank_one([](control::LinkChannel&, ForkGuard& guard) {
    if (::fork() == 0) {
      guard.close_all_in_child();  // as in the runtime's atfork handler
      hold_still();
    }
  });
  CHECK_FALSE(loss.cause.empty());
}

TEST_CASE("kill -9 of a rank is noticed even while a child that never ran the handler holds its links") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto loss = lose_rank_one([](control::LinkChannel&, ForkGuard&) {
    if (::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) hold_still();
  });
  CHECK_THAT(loss.cause, Catch::Matches("process [0-9]+ of rank 1 on host-a ended \\(killed, .*"));
}

TEST_CASE("what a rank sent before it died is delivered before its loss, whoever holds the link") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto loss = lose_rank_one([](control::LinkChannel& channel, ForkGuard&) {
    if (::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) hold_still();
    for (int i = 0; i < 50; ++i)
      channel.send(0, bytes_of(std::string(1000, static_cast<char>('a' + i % 26))));
    channel.send(0, bytes_of("goodbye"));
  });
  REQUIRE(loss.messages.size() == 51);
  CHECK(loss.messages.back() == "goodbye");
  CHECK_THAT(loss.cause, Contains("of rank 1 on host-a ended"));
}

TEST_CASE("a rank that was dead before its process could be watched is lost, not an error of open") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  TemporaryDirectory directory;
  const pid_t pid = start_rank_one(directory.path(), [](control::LinkChannel& channel, ForkGuard&) {
    channel.send(0, bytes_of("only this"));
    channel.close(deadline_after(60));
    ::_exit(0);
  });
  ForkGuard guard;
  const auto store = store::open_file_store(directory.path()).take();
  auto opened = open_channel(world_of(0, 2), {1}, store, guard);
  REQUIRE(opened.is_ok());
  ::waitpid(pid, nullptr, 0);
  const auto channel = opened.take();
  Recorder recorder;
  CHECK(poll_until(*channel, recorder, [&] { return !recorder.lost.empty(); }));
  CHECK(recorder.messages[1] == std::vector<std::string>{"only this"});
}

TEST_CASE("a rank that was stopped takes none for silent whose words it has only not read yet") {
  const Over controller(Controller::tcp);
  const auto status_of_stopped = [] {
    TemporaryDirectory directory;
    links::ProcessIdentity elsewhere = links::identity_of_this_process();
    elsewhere.pid_namespace = 0;
    const pid_t pid = ::fork();
    Config config;
    config.peer_timeout = pid == 0 ? 3 : 0;  // rank 0 sends one beat a second, and two may be late
    ForkGuard guard;
    const auto store = store::open_file_store(directory.path()).take();
    auto opened =
        open_channel(world_of(pid == 0 ? 1 : 0, 2), {pid == 0 ? 0 : 1}, store, guard, config, elsewhere);
    Recorder recorder;
    if (pid == 0) {
      ::alarm(240);
      const bool has_come = opened.is_ok() && poll_until(**opened, recorder, [&] {
                              return recorder.count > 1 || !recorder.lost.empty();
                            });
      ::_exit(has_come && recorder.lost.empty() ? 0 : 1);
    }
    REQUIRE(opened.is_ok());
    const auto beat = [&](Duration time) {
      const TimePoint until = Clock::now() + time;
      while (Clock::now() < until) control::poll(**opened, until, recorder);
    };
    (*opened)->send(1, bytes_of("before"));
    beat(1500ms);
    send_signal(pid, SIGSTOP);
    beat(4s);
    send_signal(pid, SIGCONT);
    beat(1500ms);
    (*opened)->send(1, bytes_of("after"));
    beat(500ms);
    int status = -1;
    ::waitpid(pid, &status, 0);
    return status;
  };
  // On a busy machine, rank 0 may get no CPU time for three seconds, but not every time.
  int status = -1;
  for (int attempt = 0; attempt < 5 && status != 0; ++attempt) status = status_of_stopped();
  CHECK(status == 0);
}

TEST_CASE("a stopped rank is slow, not lost") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  TemporaryDirectory directory;
  const pid_t pid = start_rank_one(directory.path(), [](control::LinkChannel& channel, ForkGuard&) {
    Recorder recorder;
    recorder.answer = [&](Rank peer, std::span<const std::byte> message) { channel.send(peer, message); };
    for (;;) control::poll(channel, kNever, recorder);
  });
  ForkGuard guard;
  const auto store = store::open_file_store(directory.path()).take();
  auto opened = open_channel(world_of(0, 2), {1}, store, guard);
  REQUIRE(opened.is_ok());
  const auto channel = opened.take();
  Recorder recorder;
  send_signal(pid, SIGSTOP);
  ::waitpid(pid, nullptr, WUNTRACED);  // it runs on for a moment
  channel->send(1, bytes_of("take your time"));
  control::poll(*channel, Clock::now() + 1500ms, recorder);
  CHECK(recorder.lost.empty());
  CHECK(recorder.count == 0);
  send_signal(pid, SIGCONT);
  CHECK(poll_until(*channel, recorder, [&] { return recorder.count == 1; }));
  send_signal(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

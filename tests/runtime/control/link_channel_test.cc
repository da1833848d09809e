#include "runtime/control/link_channel.h"

#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <catch2/catch.hpp>
#include <thread>

#include "runtime/negotiation/wire/wire.h"
#include "tests/patience.h"
#include "tests/run_ranks.h"
#include "tests/runtime/control/channels.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

/// Identities that look like processes of two hosts.
links::ProcessIdentity on_another_host(Rank rank) {
  links::ProcessIdentity self = links::identity_of_this_process();
  self.boot_id.fill(static_cast<std::byte>(rank + 1));
  return self;
}

long voluntary_switches() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

/// The text of the last message, if it reports why the job has failed.
std::string failure_in(const std::vector<std::string>& messages) {
  if (messages.empty()) return "";
  const auto message = dabke::wire::decode(bytes_of(messages.back()));
  const auto* const failure = message.is_ok() ? std::get_if<wire::FailMessage>(&*message) : nullptr;
  return failure == nullptr ? "" : failure->text;
}

// In some tests, a thread without CPU time for so long proves nothing.
// Neither does the other rank's view of it.
constexpr auto kMissedTurn = 150ms;
constexpr std::string_view kNoTurns = "no turns";

/// Polls until `until` or until a loss. Returns whether this thread has had its CPU time.
bool poll_by_turns(control::LinkChannel& channel, Recorder& recorder, TimePoint until) {
  bool had_turns = true;
  for (TimePoint turn = Clock::now(); turn < until && recorder.lost.empty();) {
    control::poll(channel, std::min(until, turn + 50ms), recorder);
    had_turns = had_turns && Clock::now() - turn < kMissedTurn;
    turn = Clock::now();
  }
  return had_turns;
}

/// Returns the results of ranks on two hosts: the first right ones, or the last. It repeats the job, because
/// a thread may lack CPU time where poll_by_turns() does not notice.
std::vector<std::string> seen_by_two(const Config& config, const std::vector<std::string>& right,
                                     const std::function<std::string(control::LinkChannel&, Rank)>& say) {
  std::vector<std::string> seen;
  const auto deadline = deadline_after(200);
  for (int attempt = 0; seen != right && (attempt < 5 || Clock::now() < deadline); ++attempt) {
    const auto store = store::make_memory_store();
    seen = run_ranks(2, [&](Rank self) -> std::string {
      ForkGuard guard;
      auto opened = open_channel(world_of(self, 2), {1 - self}, store, guard, config, on_another_host(self));
      return opened.is_ok() ? say(**opened, self) : opened.status().message();
    });
  }
  return seen;
}

}  // namespace

TEST_CASE("in a star every message reaches the root and every answer its rank, in order") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  constexpr int kSize = 4;
  constexpr int kMessages = 500;
  const auto store = store::make_memory_store();
  const auto seen = run_ranks(kSize, [&](Rank self) -> std::string {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, kSize), star(self, kSize), store, guard);
    if (!opened.is_ok()) return opened.status().message();
    auto channel = opened.take();
    Recorder recorder;
    if (self == 0) {
      recorder.answer = [&](Rank peer, std::span<const std::byte> message) { channel->send(peer, message); };
    } else {
      for (int i = 0; i < kMessages; ++i) channel->send(0, bytes_of(fmt::format("{} of {}", i, self)));
    }
    const std::size_t expected = self == 0 ? kMessages * (kSize - 1) : kMessages;
    if (!poll_until(*channel, recorder, [&] { return recorder.count == expected; }))
      return "messages are missing";
    for (const auto& [peer, messages] : recorder.messages) {
      for (int i = 0; i < kMessages; ++i) {
        if (messages[static_cast<std::size_t>(i)] != fmt::format("{} of {}", i, self == 0 ? peer : self))
          return "out of order";
      }
    }
    channel->close(deadline_after(60));
    return "ok";
  });
  CHECK(seen == std::vector<std::string>(kSize, "ok"));
}

TEST_CASE("in a full mesh 10 MB messages cross in both directions at once") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  constexpr int kSize = 4;
  const auto store = store::make_memory_store();
  const auto seen = run_ranks(kSize, [&](Rank self) -> std::string {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, kSize), all_but(self, kSize), store, guard);
    if (!opened.is_ok()) return opened.status().message();
    auto channel = opened.take();
    Recorder recorder;
    for (const Rank peer : all_but(self, kSize)) {
      std::string message(10 << 20, static_cast<char>('0' + self));
      message.back() = static_cast<char>('a' + peer);
      channel->send(peer, bytes_of(message));
    }
    if (!poll_until(
            *channel, recorder, [&] { return recorder.count == kSize - 1; }, 120))
      return "messages are missing";
    for (const auto& [peer, messages] : recorder.messages) {
      const std::string& message = messages.at(0);
      if (message.size() != 10 << 20 || message[12345] != static_cast<char>('0' + peer)) return "damaged";
      if (message.back() != static_cast<char>('a' + self)) return "meant for another";
    }
    channel->close(deadline_after(60));
    return "ok";
  });
  CHECK(seen == std::vector<std::string>(kSize, "ok"));
}

TEST_CASE("close sends what is queued, and the peer gets all of it before the loss") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto store = store::make_memory_store();
  constexpr std::size_t kBytes = 20 << 20;  // more than the sockets can buffer
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, 2), {1 - self}, store, guard);
    if (!opened.is_ok()) return opened.status().message();
    auto channel = opened.take();
    if (self == 0) {
      channel->send(1, bytes_of(std::string(kBytes, 'x')));
      channel->send(1, bytes_of("goodbye"));
      channel->close(deadline_after(60));
      channel->send(1, bytes_of("to nobody"));
      return "";
    }
    Recorder recorder;
    channel->send(0, bytes_of("never read"));
    if (!poll_until(*channel, recorder, [&] { return !recorder.lost.empty(); })) return "no loss";
    const auto& messages = recorder.messages[0];
    if (messages.size() != 2 || messages[0].size() != kBytes || messages[1] != "goodbye")
      return "messages are missing";
    if (recorder.lost_after[0] != 2) return "lost too early";
    channel->send(0, bytes_of("to nobody"));
    control::poll(*channel, Clock::now(), recorder);
    control::poll(*channel, Clock::now() + 10ms, recorder);
    return recorder.lost[0];
  });
  CHECK(seen[1] == "rank 0 on host-a: it closed its connection (killed, or ended without dabke_shutdown)");
}

TEST_CASE("close does not wait longer than its deadline for a peer that does not read") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto store = store::make_memory_store();
  std::atomic<bool> closed = false;
  const auto seen = run_ranks(2, [&](Rank self) -> double {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, 2), {1 - self}, store, guard);
    if (!opened.is_ok()) return 1000;
    auto channel = opened.take();
    if (self == 1) {
      closed.wait(false);
      return 0;
    }
    channel->send(1, bytes_of(std::string(50 << 20, 'x')));
    const auto begun = Clock::now();
    channel->close(begun + 200ms);
    closed = true;
    closed.notify_all();
    return std::chrono::duration<double>(Clock::now() - begun).count();
  });
  CHECK(seen[0] >= 0.19);
  CHECK(seen[0] < std::chrono::duration<double>(kPatience).count());
}

TEST_CASE("wake makes the current or the next poll return, from any thread") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto store = store::make_memory_store();
  ForkGuard guard;
  const auto channel = open_channel(world_of(0, 1), {}, store, guard).take();
  Recorder recorder;
  channel->wake();
  channel->wake();
  const auto begun = Clock::now();
  control::poll(*channel, deadline_after(120), recorder);  // for the next wake
  CHECK(Clock::now() - begun < kPatience);
  control::poll(*channel, Clock::now() + 20ms, recorder);  // two wakes count as one
  CHECK(Clock::now() - begun >= 20ms);

  // Work before wake() is visible after poll(), and no wake is lost.
  std::atomic<int> submitted = 0;
  int seen = 0;
  const auto deadline = deadline_after(120);
  const std::jthread submitter([&] {
    for (int i = 0; i < 20'000; ++i) {
      submitted.fetch_add(1, std::memory_order_relaxed);
      channel->wake();
    }
  });
  while (seen < 20'000 && Clock::now() < deadline) {
    control::poll(*channel, deadline, recorder);
    seen = submitted.load(std::memory_order_relaxed);
  }
  CHECK(seen == 20'000);
  CHECK(Clock::now() < deadline);
}

TEST_CASE("an idle channel on one host never wakes") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto store = store::make_memory_store();
  std::barrier both(2);
  const auto seen = run_ranks(2, [&](Rank self) -> std::pair<std::uint64_t, long> {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, 2), {1 - self}, store, guard);
    if (!opened.is_ok()) {
      both.arrive_and_drop();
      return {1000, 1000};
    }
    auto channel = opened.take();
    Recorder recorder;
    std::pair<std::uint64_t, long> woken{1000, 1000};
    // The machine also wakes threads, but not every time.
    for (int i = 0; i < 10 && (woken.first > 1 || woken.second > 2); ++i) {
      control::poll(*channel, Clock::now(), recorder);
      const auto wake_ups = channel->wake_ups();
      const auto switches = voluntary_switches();
      control::poll(*channel, Clock::now() + 2500ms, recorder);  // longer than two beats
      woken = {channel->wake_ups() - wake_ups, voluntary_switches() - switches};
    }
    both.arrive_and_wait();  // closing wakes the other rank
    channel->close(Clock::now());
    return woken;
  });
  for (const auto& [wake_ups, switches] : seen) {
    CHECK(wake_ups == 1);  // the deadline
    CHECK(switches <= 2);
  }
}

TEST_CASE("between hosts a beat a second keeps an idle link alive, and nobody sees it") {
  const Over controller(GENERATE(Controller::tcp, Controller::automatic));
  Config config;
  config.peer_timeout = 5;
  const std::vector<std::string> right(2, "ok");
  const auto seen = seen_by_two(config, right, [](control::LinkChannel& channel, Rank self) -> std::string {
    Recorder recorder;
    const auto until = Clock::now() + 6500ms;
    while (Clock::now() < until) control::poll(channel, until, recorder);
    if (!recorder.lost.empty()) return recorder.lost[1 - self];
    if (channel.wake_ups() > 22) return fmt::format("{} wake-ups", channel.wake_ups());
    const auto offset = channel.clock_of(1 - self, Clock::now());  // the two hosts have one clock
    if (!offset || std::chrono::abs(offset->ahead) > offset->error) return "the clocks differ";
    channel.send(1 - self, bytes_of("still here"));
    const bool heard =
        poll_until(channel, recorder, [&] { return recorder.count == 1 || !recorder.lost.empty(); });
    channel.close(deadline_after(60));
    const bool beats_unseen = recorder.messages[1 - self] == std::vector<std::string>{"still here"};
    return heard && beats_unseen ? "ok" : "not heard";
  });
  CHECK(seen == right);
}

TEST_CASE("between hosts a peer timeout that is shorter than a second loses nobody who lives") {
  const Over controller(Controller::tcp);
  Config config;
  config.peer_timeout = 0.6;
  const std::vector<std::string> right(2, "");
  const auto seen = seen_by_two(config, right, [](control::LinkChannel& channel, Rank self) -> std::string {
    Recorder recorder;
    channel.send(1 - self, bytes_of("past its init"));
    if (!poll_by_turns(channel, recorder, Clock::now() + 2s)) return std::string(kNoTurns);
    const std::string lost = recorder.lost[1 - self];
    // the other rank was done a moment before
    return lost.find("closed its connection") == lost.npos ? lost : "";
  });
  CHECK(seen == right);
}

// If two ranks lose a third one, the slower one would otherwise lose the
// connection to the other, and blame that rank.
TEST_CASE("between hosts a silent peer is lost when its time is up, not at the next beat") {
  const Over controller(Controller::tcp);
  Config config;
  config.peer_timeout = 2;  // so a beat comes each half second
  std::atomic<bool> over = false;
  const std::vector<std::string> right(2, "");
  const auto seen = seen_by_two(config, right, [&](control::LinkChannel& channel, Rank self) -> std::string {
    if (self == 1) {
      std::this_thread::sleep_for(250ms);
      channel.send(0, bytes_of("between two beats"));
      over.wait(false);
      over = false;
      return "";
    }
    Recorder recorder;
    TimePoint heard;
    recorder.answer = [&](Rank, std::span<const std::byte>) { heard = Clock::now(); };
    const bool had_turns = poll_by_turns(channel, recorder, Clock::now() + 4s);
    const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - heard);
    over = true;
    over.notify_all();
    if (!had_turns) return std::string(kNoTurns);
    return silence < 1900ms || silence > 2150ms ? fmt::format("lost after {} ms", silence.count()) : "";
  });
  CHECK(seen == right);
}

TEST_CASE("between hosts a silent peer is lost after the peer timeout, and never when that is 0") {
  const Over controller(GENERATE(Controller::tcp, Controller::automatic));
  const auto store = store::make_memory_store();
  std::atomic<bool> over = false;
  const double timeout = GENERATE(1.0, 0.0);
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    Config config;
    config.peer_timeout = timeout;
    auto opened = open_channel(world_of(self, 2), {1 - self}, store, guard, config, on_another_host(self));
    if (!opened.is_ok()) return opened.status().message();
    auto channel = opened.take();
    Recorder recorder;
    if (self == 1) {  // after this it sends nothing, not even a beat
      channel->send(0, bytes_of("hello"));
      over.wait(false);
      poll_until(*channel, recorder, [&] { return !recorder.lost.empty(); });
      return failure_in(recorder.messages[0]);
    }
    poll_until(
        *channel, recorder, [&] { return !recorder.lost.empty(); }, timeout > 0 ? 120 : 3);
    over = true;
    over.notify_all();
    return recorder.lost[1];
  });
  CHECK(seen[0] == (timeout > 0 ? "rank 1 on host-a: nothing received for 1 s (DABKE_PEER_TIMEOUT_SECONDS): "
                                  "the network between the hosts is cut, or its host or process has stopped"
                                : ""));
  CHECK(seen[1] == seen[0]);  // so it blames itself in its report, and not rank 0
}

TEST_CASE("a peer that has said nothing yet may be in its init for longer than the peer timeout") {
  const Over controller(Controller::tcp);
  const auto store = store::make_memory_store();
  std::atomic<bool> over = false;
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    Config config;
    config.peer_timeout = 1;
    config.start_timeout = 60;
    auto opened = open_channel(world_of(self, 2), {1 - self}, store, guard, config, on_another_host(self));
    if (!opened.is_ok()) return opened.status().message();
    auto channel = opened.take();
    Recorder recorder;
    if (self == 1) {
      over.wait(false);
    } else {
      control::poll(*channel, Clock::now() + 3s, recorder);
      over = true;
      over.notify_all();
    }
    return recorder.lost[1 - self];
  });
  CHECK(seen == std::vector<std::string>(2, ""));
}

TEST_CASE("who gives up in init tells those that it is linked to for whom it has waited") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const std::string text = "rank 1 has no link to rank 2 on host-a";
  const auto seen = with_enough_time(
      1,
      [](double seconds) {
        const auto store = store::make_memory_store();
        return run_ranks(2, [&](Rank self) -> std::string {
          ForkGuard guard;
          Config config;
          config.start_timeout = self == 1 ? seconds : 2 * seconds + 10;
          const std::vector<Rank> neighbours = self == 1 ? std::vector<Rank>{0, 2} : std::vector<Rank>{1};
          auto opened = open_channel(world_of(self, 3), neighbours, store, guard, config);
          if (!opened.is_ok()) return opened.status().message();
          auto channel = opened.take();
          Recorder recorder;
          poll_until(*channel, recorder, [&] { return !recorder.lost.empty(); });
          return failure_in(recorder.messages[1]);
        });
      },
      [&](const auto& said) { return said[1].find(text) != std::string::npos; });
  CHECK_THAT(seen[1], Contains(text));
  CHECK(seen[0] == "rank 1 on host-a failed in dabke_init: " + seen[1]);
}

TEST_CASE("a message too long to send ends the link with that cause") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto store = store::make_memory_store();
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, 2), {1 - self}, store, guard);
    if (!opened.is_ok()) return opened.status().message();
    auto channel = opened.take();
    if (self == 0) channel->send(1, std::vector<std::byte>(links::kMaxFrameBytes + 1));
    Recorder recorder;
    return poll_until(*channel, recorder, [&] { return !recorder.lost.empty(); }) ? recorder.lost[1 - self]
                                                                                  : "no loss";
  });
  CHECK_THAT(seen[0], Contains("rank 1 on host-a: a message of 268435457 bytes"));
  CHECK_THAT(seen[1], Contains("rank 0 on host-a"));
}

TEST_CASE("open names the ranks that do not come, and leaves nothing behind") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto store = store::make_memory_store();
  ForkGuard guard;
  Config config;
  config.start_timeout = 0.2;
  const auto before = open_descriptors();
  const std::vector<Rank> neighbours{0, 2};
  const auto opened = control::LinkChannel::open(world_of(1, 3), neighbours, config, store, guard, Log());
  REQUIRE_FALSE(opened.is_ok());
  CHECK(opened.status().code() == Code::timeout);
  CHECK_THAT(opened.status().message(), Contains("rank 0 on host-a") && Contains("rank 2 on host-a"));
  CHECK(open_descriptors() == before);
}

TEST_CASE("a hundred rounds of open and close leave no descriptor") {
  const Over controller(GENERATE(Controller::tcp, Controller::shm));
  const auto before = open_descriptors();
  for (int round = 0; round < 100; ++round) {
    const auto store = store::make_memory_store();
    const auto opened = run_ranks(3, [&](Rank self) -> std::string {
      ForkGuard guard;
      auto channel = open_channel(world_of(self, 3), all_but(self, 3), store, guard);
      if (channel.is_ok()) (*channel)->close(deadline_after(5));
      return channel.status().message();
    });
    REQUIRE(opened == std::vector<std::string>(3, ""));
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("neighbours of one host share memory, those of another talk over TCP, and one channel has both") {
  constexpr int kSize = 3;
  const auto store = store::make_memory_store();
  const auto seen = run_ranks(kSize, [&](Rank self) -> std::string {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, kSize), all_but(self, kSize), store, guard, {},
                               self == 2 ? on_another_host(2) : links::identity_of_this_process());
    if (!opened.is_ok()) return opened.status().message();
    auto channel = opened.take();
    for (const Rank peer : all_but(self, kSize)) channel->send(peer, bytes_of("hello"));
    Recorder recorder;
    const bool heard = poll_until(*channel, recorder, [&] { return recorder.count == kSize - 1; });
    const std::string name(channel->name());
    channel->close(deadline_after(60));
    return heard ? name : "not heard";
  });
  CHECK(seen == std::vector<std::string>{"shm+tcp", "shm+tcp", "tcp"});
}

TEST_CASE("shm as the controller is an error that names the neighbour where memory cannot be shared") {
  const Over controller(Controller::shm);
  const auto store = store::make_memory_store();
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    auto config = Config();
    config.start_timeout = self == 1 ? 60 : 5;  // rank 0 waits in vain
    return open_channel(world_of(self, 2), {1 - self}, store, guard, config, on_another_host(self))
        .status()
        .message();
  });
  CHECK_THAT(
      seen[1],
      Contains("DABKE_CONTROLLER=shm: rank 1 shares no memory with rank 0 on host-a: it is on another"));
}

TEST_CASE("a busy link in shared memory does not starve one over TCP") {
  constexpr int kSize = 3;
  const auto store = store::make_memory_store();
  std::atomic<bool> over = false;
  const auto seen = run_ranks(kSize, [&](Rank self) -> std::string {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, kSize), star(self, kSize), store, guard, {},
                               self == 2 ? on_another_host(2) : links::identity_of_this_process());
    if (!opened.is_ok()) return opened.status().message();
    auto channel = opened.take();
    Recorder recorder;
    // Ranks 0 and 1 always have a message under way.
    if (self < 2) {
      recorder.answer = [&](Rank peer, std::span<const std::byte> message) {
        if (peer + self == 1 && !over) channel->send(peer, message);
      };
    }
    if (self == 1) channel->send(0, bytes_of("again"));
    if (self == 2) channel->send(0, bytes_of("me too"));
    if (self == 0) {
      const bool heard = poll_until(*channel, recorder, [&] { return recorder.messages.count(2) != 0; });
      over = true;
      channel->close(deadline_after(60));
      return heard ? "heard" : "starved";
    }
    poll_until(*channel, recorder, [&] { return !recorder.lost.empty(); });
    return "heard";
  });
  CHECK(seen == std::vector<std::string>(kSize, "heard"));
}

// The MPI channel with real notices, over a port with delays, losses and failures of the test's choice.
// tests/multiproc/mpi_test.cc tests MPI itself.
#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <mutex>

#include "runtime/control/mpi_channel.h"
#include "tests/patience.h"
#include "tests/run_ranks.h"
#include "tests/runtime/control/channels.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using namespace std::chrono_literals;

namespace {

/// The messages between the ports of a job.
struct Wire {
  struct Message {
    std::vector<std::byte> bytes;
    bool is_there = false;  // it can be received
  };
  std::mutex mutex;
  std::map<std::pair<int, int>, std::deque<Message>> on_way;  // from, to
};

/// A port that behaves as MPI does: after send() has returned, a long message does not
/// move until its sender calls MPI again.
class WirePort final : public modules::MpiPort {
 public:
  static constexpr std::size_t kLong = 100;

  WirePort(Wire& wire, int rank) : wire_(wire), rank_(rank) {}
  Result<bool> send(int to, std::span<const std::byte> message) override {
    const std::lock_guard lock(wire_.mutex);
    const bool is_long = message.size() >= kLong;
    wire_.on_way[{rank_, to}].push_back({{message.begin(), message.end()}, !is_long && !defers_orders});
    return !is_long;
  }
  Result<std::optional<std::span<const std::byte>>> receive(int from) override {
    const std::lock_guard lock(wire_.mutex);
    ++asked;
    if (asked == arrives_at) wire_.on_way[{from, rank_}].front().is_there = true;
    if (fails) return Status(Code::transport, "MPI_Improbe: the network card is on fire");
    auto& messages = wire_.on_way[{from, rank_}];
    if (messages.empty() || !messages.front().is_there) return std::optional<std::span<const std::byte>>();
    received_ = std::move(messages.front().bytes);
    messages.pop_front();
    return std::optional(std::span<const std::byte>(received_));
  }
  Progress progress() override {
    const std::lock_guard lock(wire_.mutex);
    std::size_t sends = 0;
    for (auto& [way, messages] : wire_.on_way) {
      for (Wire::Message& message : messages) {
        if (way.first != rank_) continue;
        sends += message.is_there || message.bytes.size() < kLong ? 0 : 1;
        message.is_there = true;
      }
    }
    return {sends, -1, {}};
  }
  void forget(int) override {}

  std::atomic<bool> defers_orders = false;  // short messages also stay here until progress()
  std::atomic<bool> fails = false;
  std::atomic<int> asked = 0;
  std::atomic<int> arrives_at = -1;  // after so many calls, the message that the peer has kept back arrives

 private:
  Wire& wire_;
  int rank_;
  std::vector<std::byte> received_;
};

/// One rank's channel, and its parts that the test uses.
struct Opened {
  std::unique_ptr<control::MpiChannel> channel;
  control::LinkChannel* notices = nullptr;
  WirePort* port = nullptr;
};

Opened open_over(Wire& wire, Rank self, int size, const std::shared_ptr<store::Store>& store,
                 ForkGuard& guard) {
  const World world = world_of(self, size);
  const std::vector<Rank> neighbours = star(self, size);
  auto notices = open_channel(world, neighbours, store, guard).take();
  auto port = std::make_unique<WirePort>(wire, self);
  Opened opened{nullptr, notices.get(), port.get()};
  opened.channel =
      std::make_unique<control::MpiChannel>(world, neighbours, std::move(notices), std::move(port));
  return opened;
}

std::string long_text(int i) { return fmt::format("{} {}", i, std::string(WirePort::kLong, '.')); }

}  // namespace

TEST_CASE("MPI channel: long and short messages come in the order in which they were sent, from everybody") {
  constexpr int kSize = 3;
  constexpr int kMessages = 100;
  Wire wire;
  const auto store = store::make_memory_store();
  const auto text = [](int i) { return i % 10 == 3 ? long_text(i) : std::to_string(i); };
  const auto seen = run_ranks(kSize, [&](Rank self) -> std::string {
    ForkGuard guard;
    Opened opened = open_over(wire, self, kSize, store, guard);
    control::MpiChannel& channel = *opened.channel;
    Recorder recorder;
    if (self == 0) {
      recorder.answer = [&](Rank peer, std::span<const std::byte> message) { channel.send(peer, message); };
    } else {
      for (int i = 0; i < kMessages; ++i) channel.send(0, bytes_of(text(i)));
    }
    const std::size_t expected = self == 0 ? kMessages * (kSize - 1) : kMessages;
    if (!poll_until(channel, recorder, [&] { return recorder.count == expected; }))
      return "messages are missing";
    for (const auto& [peer, messages] : recorder.messages) {
      for (int i = 0; i < kMessages; ++i) {
        if (messages[static_cast<std::size_t>(i)] != text(i)) return "out of order";
      }
    }
    const auto closing = Clock::now();
    channel.close(deadline_after(120));
    return Clock::now() - closing < kPatience ? "ok" : "closed late";
  });
  CHECK(seen == std::vector<std::string>(kSize, "ok"));
}

TEST_CASE(
    "MPI channel: a sender that sleeps is woken for a message that its MPI has kept, and sleeps again") {
  Wire wire;
  const auto store = store::make_memory_store();
  std::atomic<bool> over = false;
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    Opened opened = open_over(wire, self, 2, store, guard);
    Recorder recorder;
    if (self == 1) {
      opened.port->defers_orders = true;
      opened.channel->send(0, bytes_of("short"));
      while (!over) control::poll(*opened.channel, kNever, recorder);
    } else {
      const bool came = poll_until(*opened.channel, recorder, [&] { return recorder.count == 1; });
      over = true;
      opened.channel->send(1, bytes_of("over"));
      if (!came) return "it never came";
    }
    opened.channel->close(deadline_after(120));
    return "ok";
  });
  CHECK(seen == std::vector<std::string>(2, "ok"));
}

TEST_CASE("MPI channel: an idle channel neither wakes nor asks MPI") {
  Wire wire;
  const auto store = store::make_memory_store();
  std::barrier both(2);
  const auto seen = run_ranks(2, [&](Rank self) -> std::pair<std::uint64_t, int> {
    ForkGuard guard;
    Opened opened = open_over(wire, self, 2, store, guard);
    Recorder recorder;
    // This follows a long message, after which neither side has anything left to watch.
    opened.channel->send(1 - self, bytes_of(long_text(0)));
    if (!poll_until(*opened.channel, recorder, [&] { return recorder.count == 1; })) {
      both.arrive_and_drop();
      return {1000, 1000};
    }
    std::pair<std::uint64_t, int> woken{1000, 1000};
    // a late notice of the peer may still come
    for (int i = 0; i < 10 && (woken.first > 1 || woken.second > 0); ++i) {
      const auto wake_ups = opened.notices->wake_ups();
      const int asked = opened.port->asked;
      control::poll(*opened.channel, Clock::now() + 1s, recorder);
      woken = {opened.notices->wake_ups() - wake_ups, opened.port->asked - asked};
    }
    both.arrive_and_wait();  // otherwise the loss of the other rank would end the poll of the slower one
    opened.channel->close(deadline_after(120));
    return woken;
  });
  for (const auto& [wake_ups, asked] : seen) {
    CHECK(wake_ups == 1);  // the deadline
    CHECK(asked == 0);
  }
}

TEST_CASE("MPI channel: what a lost peer had sent comes first; what it had only offered is not waited for") {
  Wire wire;
  const auto store = store::make_memory_store();
  std::atomic<bool> is_rung = false;
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    Opened opened = open_over(wire, self, 2, store, guard);
    Recorder recorder;
    if (self == 1) {
      opened.channel->send(0, bytes_of("one"));
      opened.channel->send(0, bytes_of("two"));
      opened.channel->send(0, bytes_of(long_text(3)));
      opened.channel->send(0, bytes_of("four"));  // never delivered after a message that is missing
      is_rung = true;
      is_rung.notify_all();
      opened.channel.reset();  // dies without a goodbye
      return "ok";
    }
    is_rung.wait(false);
    const auto begun = Clock::now();
    if (!poll_until(*opened.channel, recorder, [&] { return !recorder.lost.empty(); })) return "no loss";
    opened.channel->close(deadline_after(120));
    if (Clock::now() - begun > kPatience) return "late";
    return fmt::format("{} {}: {}", fmt::join(recorder.messages[1], " "), recorder.lost_after[1],
                       recorder.lost[1]);
  });
  CHECK_THAT(seen[0], StartsWith("one two 2: rank 1 on host-a: ") && EndsWith("closed its connection"));
}

TEST_CASE("MPI channel: a lost peer's message that is still on its way is waited for, but not for ever") {
  Wire wire;
  const auto store = store::make_memory_store();
  const bool comes = GENERATE(true, false);
  std::atomic<bool> is_rung = false;
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    Opened opened = open_over(wire, self, 2, store, guard);
    Recorder recorder;
    if (self == 1) {
      opened.port->defers_orders = true;
      opened.channel->send(0, bytes_of("last words"));
      opened.channel.reset();
      is_rung = true;
      is_rung.notify_all();
      return "ok";
    }
    is_rung.wait(false);
    if (comes) opened.port->arrives_at = opened.port->asked + 3;
    if (!poll_until(*opened.channel, recorder, [&] { return !recorder.lost.empty(); })) return "no loss";
    return fmt::format("{}", fmt::join(recorder.messages[1], " "));
  });
  CHECK(seen[0] == (comes ? "last words" : ""));
}

TEST_CASE("MPI channel: when MPI fails the peer is lost with its words, unless the link knows better") {
  Wire wire;
  const auto store = store::make_memory_store();
  const bool dies = GENERATE(true, false);
  std::atomic<bool> over = false, is_rung = false;
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    Opened opened = open_over(wire, self, 2, store, guard);
    Recorder recorder;
    if (self == 1) {
      opened.channel->send(0, bytes_of("hello"));
      if (dies) opened.channel.reset();
      is_rung = true;
      is_rung.notify_all();
      over.wait(false);
      return "ok";
    }
    is_rung.wait(false);
    opened.port->fails = true;
    const bool lost = poll_until(*opened.channel, recorder, [&] { return !recorder.lost.empty(); });
    over = true;
    over.notify_all();
    return lost ? recorder.lost[1] : "no loss";
  });
  CHECK(seen[0] ==
        (dies ? "rank 1 on host-a: it closed its connection (killed, or ended without dabke_shutdown)"
              : "rank 1 on host-a: MPI_Improbe: the network card is on fire"));
}

TEST_CASE("MPI channel: what is still on its way when both close is taken before they are closed") {
  Wire wire;
  const auto store = store::make_memory_store();
  run_ranks(2, [&](Rank self) {
    ForkGuard guard;
    Opened opened = open_over(wire, self, 2, store, guard);
    for (int i = 0; i < 5; ++i) opened.channel->send(1 - self, bytes_of(long_text(i)));
    opened.channel->close(deadline_after(120));
    return 0;
  });
  for (const auto& [way, messages] : wire.on_way) CHECK(messages.empty());
}

TEST_CASE("MPI channel: closing waits for a stuck peer no longer than asked") {
  Wire wire;
  const auto store = store::make_memory_store();
  std::atomic<int> stage = 0;
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    Opened opened = open_over(wire, self, 2, store, guard);
    if (self == 1) {  // it neither polls nor closes
      stage.wait(0);
      return "ok";
    }
    opened.channel->send(1, bytes_of(long_text(0)));
    const auto begun = Clock::now();
    opened.channel->close(begun + 300ms);
    const auto took = Clock::now() - begun;
    stage = 1;
    stage.notify_all();
    return took >= 250ms && took < kPatience ? "ok" : fmt::format("{} ms", took / 1ms);
  });
  CHECK(seen == std::vector<std::string>(2, "ok"));
}

TEST_CASE("MPI channel: a message too long to send ends the peer with that cause") {
  Wire wire;
  const auto store = store::make_memory_store();
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    Opened opened = open_over(wire, self, 2, store, guard);
    Recorder recorder;
    if (self == 0) opened.channel->send(1, std::vector<std::byte>(links::kMaxFrameBytes + 1));
    if (self == 0) control::poll(*opened.channel, kNever, recorder);
    opened.channel->close(deadline_after(60));
    return self == 0 ? recorder.lost[1] : "";
  });
  CHECK_THAT(seen[0], Contains("rank 1 on host-a: a message of 268435457 bytes is too long"));
}

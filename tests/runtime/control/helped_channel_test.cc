// Threads that drive a channel while another sleeps in its poll().
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>

#include "tests/run_ranks.h"
#include "tests/runtime/control/channels.h"

using namespace dabke;
using namespace dabke::test;
using namespace std::chrono_literals;

namespace {

/// A channel whose own thread sleeps in poll(). All messages go to one recorder, which the baton guards.
class Driven {
 public:
  explicit Driven(std::unique_ptr<control::ControlChannel> channel) : channel_(std::move(channel)) {}
  ~Driven() {
    const std::lock_guard lock(baton_);
    over_ = true;
    channel_->hand_back(true);
  }

  /// Sends one message, looks so many times, and lets the thread in poll() wait again.
  void help(int looks) {
    const std::lock_guard lock(baton_);
    channel_->look(recorder_);
    channel_->send(0, bytes_of("again"));
    ++sent_;
    for (int i = 0; i < looks; ++i) channel_->look(recorder_);
    channel_->hand_back(false);
  }
  /// Waits for all messages without looking itself: the thread in poll() must receive the rest.
  bool all_came() {
    for (const auto deadline = deadline_after(60); Clock::now() < deadline; std::this_thread::yield()) {
      const std::lock_guard lock(baton_);
      if (recorder_.count == sent_) return true;
    }
    return false;
  }

 private:
  void loop() {
    const std::lock_guard lock(baton_);
    while (!over_) channel_->poll(kNever, recorder_, baton_);
  }

  std::unique_ptr<control::ControlChannel> channel_;
  control::Baton baton_;
  Recorder recorder_;
  std::size_t sent_ = 0;
  bool over_ = false;
  std::jthread thread_{[this] { loop(); }};
};

}  // namespace

TEST_CASE("what comes while helpers come and go reaches one of them or the thread in poll, once") {
  const Over controller(Controller::shm);
  constexpr int kHelpers = 3;
  constexpr int kRounds = 300;
  const auto store = store::make_memory_store();
  const auto seen = run_ranks(2, [&](Rank self) -> std::string {
    ForkGuard guard;
    auto opened = open_channel(world_of(self, 2), {1 - self}, store, guard);
    if (!opened.is_ok()) return opened.status().message();
    if (self == 0) {
      const auto channel = opened.take();
      Recorder recorder;
      recorder.answer = [&](Rank peer, std::span<const std::byte> message) { channel->send(peer, message); };
      return poll_until(
                 *channel, recorder, [&] { return !recorder.lost.empty(); }, 120)
                 ? "ok"
                 : "no end";
    }
    if (!(*opened)->can_be_helped()) return "all is in shared memory, and yet it cannot be helped";
    Driven driven(opened.take());
    bool all = true;
    for (int part = 0; part < 10 && all; ++part) {
      {
        std::vector<std::jthread> helpers;
        for (int helper = 0; helper < kHelpers; ++helper) {
          helpers.emplace_back([&driven, helper] {
            for (int i = 0; i < kRounds / 10; ++i) driven.help(i * (helper + 1) % 7 * 40);
          });
        }
      }
      all = driven.all_came();
    }
    return all ? "ok" : "messages are missing";
  });
  CHECK(seen == std::vector<std::string>{"ok", "ok"});
}

TEST_CASE("a channel over sockets is not helped") {
  const Over controller(Controller::tcp);
  const auto store = store::make_memory_store();
  const auto seen = run_ranks(2, [&](Rank self) {
    ForkGuard guard;
    const auto channel = open_channel(world_of(self, 2), {1 - self}, store, guard).take();
    return channel->can_be_helped() ? 1 : 0;
  });
  CHECK(seen == std::vector<int>{0, 0});
}

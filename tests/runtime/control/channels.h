// Control channels of ranks that are threads or forked processes of the test.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/control/link_channel.h"
#include "tests/runtime/links/ranks.h"

namespace dabke::test {

/// Notes the events of a channel.
class Recorder final : public control::ControlSink {
 public:
  void on_message(Rank peer, std::span<const std::byte> message) override {
    messages[peer].push_back(text_of(message));
    ++count;
    if (answer) answer(peer, message);
  }
  void on_peer_lost(Rank peer, const Status& cause) override {
    lost[peer] += cause.message();
    lost_after[peer] = messages[peer].size();
    if (cause.code() != Code::peer_lost) lost[peer] += " with a wrong code";
  }

  std::map<Rank, std::vector<std::string>> messages;
  std::map<Rank, std::string> lost;  // causes; two of one peer would be concatenated
  std::map<Rank, std::size_t> lost_after;
  std::size_t count = 0;
  std::function<void(Rank, std::span<const std::byte>)> answer;
};

/// Sets DABKE_CONTROLLER for the channels that a test opens while this lives.
class Over {
 public:
  explicit Over(Controller controller) { current() = controller; }
  ~Over() { current() = Controller::automatic; }
  Over(const Over&) = delete;
  Over& operator=(const Over&) = delete;
  static Controller& current() {
    static Controller controller = Controller::automatic;
    return controller;
  }
};

inline Result<std::unique_ptr<control::LinkChannel>> open_channel(
    const World& world, std::vector<Rank> neighbours, std::shared_ptr<store::Store> store, ForkGuard& guard,
    Config config = {}, const links::ProcessIdentity& self = links::identity_of_this_process()) {
  config.controller = Over::current();
  return control::LinkChannel::open_as(self, world, neighbours, config, std::move(store), guard, Log());
}

/// The neighbours in a star: rank 0 has all others, each other rank has rank 0.
inline std::vector<Rank> star(Rank self, int size) {
  return self == 0 ? all_but(0, size) : std::vector<Rank>{0};
}

/// Polls until `done`, or until `seconds` have passed. Returns whether it was done.
inline bool poll_until(control::ControlChannel& channel, Recorder& recorder,
                       const std::function<bool()>& done, double seconds = 120) {
  const auto deadline = deadline_after(seconds);
  while (!done()) {
    if (Clock::now() >= deadline) return false;
    control::poll(channel, deadline, recorder);
  }
  return true;
}

}  // namespace dabke::test

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/negotiation/state/actions.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

/// The actions that one rank's negotiation asks for, in order.
class Outbox {
 public:
  explicit Outbox(int size) : gone_(static_cast<std::size_t>(size)) {}

  template <class Given>  // not an Action: one made from a temporary makes g++ 12 warn falsely at -O3
  void add(Given&& action) {
    actions_.emplace_back(std::forward<Given>(action));
  }
  /// Asks where this rank's threads are. Returns the action's number.
  std::uint64_t ask_for_stack() {
    add(StackAction{++stacks_asked_});
    return stacks_asked_;
  }
  void send(Rank peer, const wire::Message& message) {
    std::vector<std::byte> bytes;
    encode(message, bytes);
    send_bytes(peer, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
  }
  void send_bytes(Rank peer, std::shared_ptr<const std::vector<std::byte>> bytes) {
    if (!gone_[static_cast<std::size_t>(peer)]) actions_.emplace_back(SendAction{peer, std::move(bytes)});
  }
  /// Stops all sends to this peer.
  void note_gone(Rank peer) { gone_[static_cast<std::size_t>(peer)] = true; }

  std::size_t size() const { return actions_.size(); }
  std::vector<Action> take() { return std::exchange(actions_, {}); }

 private:
  std::vector<Action> actions_;
  std::vector<bool> gone_;  // by rank
  std::uint64_t stacks_asked_ = 0;
};

}  // namespace dabke::negotiation

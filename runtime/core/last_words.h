// The messages that a rank sends to its neighbours, past the negotiation, when it cannot go on. They end the
// job on all ranks with this rank's cause.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/base/world.h"
#include "runtime/control/control_channel.h"

namespace dabke::core {

class LastWords {
 public:
  /// Both arguments outlive this object.
  LastWords(const World& world, control::ControlChannel& channel) : world_(world), channel_(channel) {}
  /// Called once while there is memory: the end may come when none is left.
  void prepare(std::vector<Rank> neighbours);

  /// "rank 1 on host-b: <cause>"
  Status of_this_rank(const Status& cause) const;
  void send(const Status& cause);
  /// Like send(), for a rank that has run out of memory. Needs no memory.
  void send_out_of_memory();
  /// Frees memory that was kept for the end.
  void give_back_reserve() { reserve_.reset(); }

 private:
  void send_to_all(std::span<const std::byte> message);

  const World& world_;
  control::ControlChannel& channel_;
  std::vector<Rank> neighbours_;
  std::vector<std::byte> out_of_memory_;  // "rank 1 on host-b: out of memory", as a message
  std::unique_ptr<std::byte[]> reserve_;
};

}  // namespace dabke::core

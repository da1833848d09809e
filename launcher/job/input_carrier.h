// The input of rank 0, on its way to the agent of another host. A chunk is sent only when the one before it
// has been taken. So input that rank 0 does not read stays where it is.
#pragma once

#include <poll.h>

#include <vector>

#include "launcher/reach/agent_link.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

class InputCarrier {
 public:
  InputCarrier(AgentLink& agent, Fd input) : agent_(agent), input_(std::move(input)) {}

  AgentLink& agent() const { return agent_; }
  /// Called when the rank has taken the chunk.
  void taken() { is_taken_ = true; }
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);

 private:
  AgentLink& agent_;
  Fd input_;
  bool is_taken_ = true;
};

}  // namespace dabke::launcher

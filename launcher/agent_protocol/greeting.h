// The first bytes of an agent. They separate its frames from the earlier output of a shell, and state its
// version and its machine. Pure.
#pragma once

#include <optional>
#include <string>

namespace dabke::launcher {

struct Greeting {
  std::string version;
  std::string machine;  // as returned by this_machine()
};

/// The version of this build and of its protocol (launcher/agent_protocol/protocol.h). Another version has
/// another protocol.
std::string agent_version();

/// "\ndabke-agent 0.1.0/4 MACHINE\n"
std::string greeting_text(const Greeting& greeting);

/// Searches for a greeting in `bytes`, to which the caller appends received bytes. Moves the text before it
/// to `before`. If it returns a greeting, `bytes` begins after it.
std::optional<Greeting> take_greeting(std::string& bytes, std::string& before);

}  // namespace dabke::launcher

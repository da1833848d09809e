// The first bytes of an agent: they tell it from what a shell prints before, and say which version it is of and which
// machine it is on. Pure.
#pragma once

#include <optional>
#include <string>

namespace dabke::launcher {

struct Greeting {
  std::string version;
  std::string machine;  // as this_machine() has it
};

/// The version of this build and of what it speaks (launcher/agent_protocol/protocol.h). Another one speaks otherwise.
std::string agent_version();

/// "\ndabke-agent 0.1.0/2 MACHINE\n"
std::string greeting_text(const Greeting& greeting);

/// Looks for a greeting in `bytes`, to which the caller adds what comes, and moves what stands before it to `before`.
/// With the greeting, `bytes` begins after it.
std::optional<Greeting> take_greeting(std::string& bytes, std::string& before);

}  // namespace dabke::launcher

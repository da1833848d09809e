#include "launcher/agent_protocol/greeting.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "launcher/agent_protocol/version.h"

namespace dabke::launcher {
namespace {

/// The text before the version.
constexpr std::string_view kAgentMagic = "\ndabke-agent ";
/// The version of the frames in launcher/agent_protocol/protocol.h.
constexpr int kProtocol = 4;
constexpr std::size_t kLongestGreeting = 400;

void move_front(std::string& from, std::size_t size, std::string& to) {
  to.append(from, 0, size);
  from.erase(0, size);
}

}  // namespace

std::string agent_version() { return fmt::format("{}/{}", DABKE_VERSION, kProtocol); }

std::string greeting_text(const Greeting& greeting) {
  return fmt::format("{}{} {}\n", kAgentMagic, greeting.version, greeting.machine);
}

std::optional<Greeting> take_greeting(std::string& bytes, std::string& before) {
  for (;;) {
    const auto at = bytes.find(kAgentMagic);
    if (at == std::string::npos) {  // the beginning of a greeting may be there
      move_front(bytes, bytes.size() - std::min(bytes.size(), kAgentMagic.size() - 1), before);
      return std::nullopt;
    }
    move_front(bytes, at, before);
    const auto end = bytes.find('\n', kAgentMagic.size());
    if (end != std::string::npos && end <= kLongestGreeting) {
      const std::string_view line =
          std::string_view(bytes).substr(kAgentMagic.size(), end - kAgentMagic.size());
      const auto space = std::min(line.find(' '), line.size());
      Greeting greeting{std::string(line.substr(0, space)),
                        std::string(line.substr(std::min(space + 1, line.size())))};
      bytes.erase(0, end + 1);
      return greeting;
    }
    if (bytes.size() <= kLongestGreeting) return std::nullopt;
    move_front(bytes, kAgentMagic.size(), before);
  }
}

}  // namespace dabke::launcher

#include "launcher/agent_protocol/greeting.h"

#include <catch2/catch.hpp>

#include "launcher/machine/machine.h"

namespace dabke::test {
using namespace launcher;

TEST_CASE("a greeting is found behind whatever a shell prints, in pieces of any size") {
  const std::string text = "Welcome!\n\ndabke-agen\n" + greeting_text({"0.1.0/2", "machine"}) + "frames";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, text.size()}) {
    std::string bytes, before;
    std::optional<Greeting> greeting;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      bytes += text.substr(at, piece);
      if (!greeting) greeting = take_greeting(bytes, before);
    }
    REQUIRE(greeting);
    CHECK(greeting->version == "0.1.0/2");
    CHECK(greeting->machine == "machine");
    CHECK(before == "Welcome!\n\ndabke-agen\n");
    CHECK(bytes == "frames");
  }
}

TEST_CASE("the greeting of another version is one, also where it says no machine") {
  std::string bytes = "\ndabke-agent 1\n", before;
  const auto greeting = take_greeting(bytes, before);
  REQUIRE(greeting);
  CHECK(greeting->version == "1");
  CHECK(greeting->machine.empty());
}

TEST_CASE("what looks like a greeting and does not end is none, and little of what comes is kept") {
  std::string bytes, before;
  for (int i = 0; i < 1000; ++i) {
    bytes += "\ndabke-agent " + std::string(1000, 'x');
    CHECK_FALSE(take_greeting(bytes, before));
    CHECK(bytes.size() < 2000);
  }
  bytes += greeting_text({"v", ""});
  CHECK(take_greeting(bytes, before)->version == "v");
}

TEST_CASE("a machine is one word, and the same each time") {
  CHECK_FALSE(this_machine().empty());
  CHECK(this_machine() == this_machine());
  CHECK(this_machine().find_first_of(" \n") == std::string::npos);
}

}  // namespace dabke::test

#include "launcher/agent_protocol/wire.h"

#include <cstdint>

#include <catch2/catch.hpp>

#include "launcher/agent_protocol/protocol.h"

namespace dabke::test {
using namespace launcher;
namespace {

PrepareMessage whole_order() {
  PrepareMessage order;
  order.command = {"./train", "", std::string("a\0b\n", 4)};
  order.directory = "/somewhere";
  order.environment = {"A=1", "B="};
  order.variables = {{"NAME", "value"}};
  order.ranks = {{{3, 4, 1, 2, 1, 2, "node2"}, {{"ONLY", "here"}}}};
  order.bind_to = BindTo::core;
  order.peer_timeout_ms = -1;
  order.grace_ms = std::int64_t{1} << 40;
  return order;
}

}  // namespace

TEST_CASE("an order arrives as it was sent, whatever bytes are in it") {
  PrepareMessage read;
  REQUIRE(from_wire(to_wire(whole_order()), read));
  CHECK(read.command == std::vector<std::string>{"./train", "", std::string("a\0b\n", 4)});
  CHECK(read.directory == "/somewhere");
  CHECK(read.environment == std::vector<std::string>{"A=1", "B="});
  CHECK(read.variables == std::vector<std::pair<std::string, std::string>>{{"NAME", "value"}});
  REQUIRE(read.ranks.size() == 1);
  CHECK(read.ranks[0].placement == RankPlacement{3, 4, 1, 2, 1, 2, "node2"});
  CHECK(read.ranks[0].variables == std::vector<std::pair<std::string, std::string>>{{"ONLY", "here"}});
  CHECK(read.bind_to == BindTo::core);
  CHECK_FALSE(read.verbose);
  CHECK(read.peer_timeout_ms == -1);
  CHECK(read.grace_ms == std::int64_t{1} << 40);
}

TEST_CASE("a message that is cut off, or has more behind it, is none") {
  const std::string whole = to_wire(whole_order());
  PrepareMessage read;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(from_wire(whole.substr(0, size), read));
  }
  CHECK_FALSE(from_wire(whole + "x", read));
}

TEST_CASE("numbers are eight bytes, the lowest first, and text follows its length") {
  CHECK(to_wire(CommandMessage{-2}) == "\xfe\xff\xff\xff\xff\xff\xff\xff");
  CHECK(to_wire(TextMessage{"ab"}) == std::string("\2\0\0\0\0\0\0\0ab", 10));
}

TEST_CASE("a list that claims to be longer than its message is none, and takes no memory") {
  PrepareMessage read;
  CHECK_FALSE(from_wire(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8), read));
  CHECK(read.command.empty());
}

}  // namespace dabke::test

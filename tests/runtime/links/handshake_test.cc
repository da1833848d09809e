#include "runtime/links/handshake.h"

#include <openssl/evp.h>

#include <catch2/catch.hpp>
#include <random>

#include "tests/runtime/links/ranks.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

namespace {

constexpr int kSize = 4;
constexpr auto kAnybody = [](Rank) { return true; };

struct Outcome {
  Status connector;
  Status acceptor;
  bool both_done = false;
};

/// Moves bytes from one side to the other, at most `step` at a time. Returns whether any moved.
bool move_bytes(links::Handshake& from, links::Handshake& to, std::size_t step, Status& status) {
  const auto out = from.outgoing();
  const std::size_t count = std::min({step, out.size(), to.wanted()});
  if (count == 0) return false;
  if (const auto now = to.receive(out.first(count)); !now.is_ok()) status = now;
  from.sent(count);
  return true;
}

/// Feeds as many of `bytes` as the side wants.
Status feed(links::Handshake& to, std::span<const std::byte> bytes) {
  Status status;
  while (status.is_ok() && to.wanted() > 0 && !bytes.empty()) {
    const std::size_t count = std::min(to.wanted(), bytes.size());
    status = to.receive(bytes.first(count));
    bytes = bytes.subspan(count);
  }
  return status;
}

/// Moves everything that `from` sends.
void move_all(links::Handshake& from, links::Handshake& to, Status& status) {
  while (move_bytes(from, to, 1000, status)) {
  }
}

Outcome shake(links::Handshake& connector, links::Handshake& acceptor, std::size_t step = 1000) {
  Outcome outcome;
  while (move_bytes(connector, acceptor, step, outcome.acceptor) |
         move_bytes(acceptor, connector, step, outcome.connector)) {
  }
  outcome.both_done = connector.done() && acceptor.done();
  return outcome;
}

Outcome shake(const links::Handshake::Self& connects, const links::Handshake::Self& accepts, Rank wanted,
              std::size_t step = 1000) {
  auto connector = links::Handshake::connect(connects, wanted).take();
  auto acceptor = links::Handshake::accept(accepts, kAnybody).take();
  return shake(connector, acceptor, step);
}

}  // namespace

TEST_CASE("two ranks of one job and epoch accept each other, whatever pieces the bytes come in") {
  const auto low = self_of(world_of(1, kSize));
  const auto high = self_of(world_of(3, kSize));
  for (const std::size_t step : {1, 2, 7, 64, 1000}) {
    auto connector = links::Handshake::connect(high, 1).take();
    auto acceptor = links::Handshake::accept(low, kAnybody).take();
    const auto outcome = shake(connector, acceptor, step);
    CHECK(outcome.connector.is_ok());
    CHECK(outcome.acceptor.is_ok());
    REQUIRE(outcome.both_done);
    CHECK(acceptor.peer_rank() == 3);
    CHECK(connector.peer_rank() == 1);
    CHECK(acceptor.peer_process() == high.process);
    CHECK(connector.wanted() == 0);  // what follows belongs to the frames
  }
}

TEST_CASE("a side with another key is refused by both") {
  auto stranger = self_of(world_of(3, kSize));
  stranger.job_key[5] ^= std::byte{1};
  const auto outcome = shake(stranger, self_of(world_of(0, kSize)), 0);
  CHECK_FALSE(outcome.both_done);
  CHECK_THAT(outcome.connector.message(), Contains("DABKE_JOB_KEY"));

  // A connector that ignores the acceptor's proof fails because of its own.
  auto connector = links::Handshake::connect(self_of(world_of(3, kSize)), 0).take();
  auto acceptor = links::Handshake::accept(self_of(world_of(0, kSize)), kAnybody).take();
  Status status;
  move_all(connector, acceptor, status);
  move_all(acceptor, connector, status);
  REQUIRE(status.is_ok());
  std::vector<std::byte> proof(connector.outgoing().begin(), connector.outgoing().end());
  proof.back() ^= std::byte{1};
  status = feed(acceptor, proof);
  CHECK_FALSE(acceptor.done());
  CHECK_THAT(status.message(), Contains("rank 3") && Contains("key"));
}

TEST_CASE("where no digests can be made nobody is let in, and both sides are told why") {
  // The same as `default_properties = fips=yes` in openssl.cnf on a host without the FIPS provider.
  auto stranger = self_of(world_of(3, kSize));
  stranger.job_key[5] ^= std::byte{1};
  REQUIRE(EVP_set_default_properties(nullptr, "fips=yes") == 1);
  const auto outcome = shake(stranger, self_of(world_of(0, kSize)), 0);
  REQUIRE(EVP_set_default_properties(nullptr, "") == 1);
  CHECK_FALSE(outcome.both_done);
  CHECK_THAT(outcome.acceptor.message(), Contains("HMAC-SHA256"));
  CHECK_THAT(outcome.connector.message(), Contains("refused: ") && Contains("HMAC-SHA256"));
}

TEST_CASE("a rank of another version, job, epoch or place is refused with both sides named") {
  const auto accepts = self_of(world_of(0, kSize));
  auto connects = self_of(world_of(3, kSize));
  Rank wanted = 0;
  std::string needle;
  SECTION("version") {
    connects.version = links::kWireVersion + 1;
    needle = "version " + std::to_string(links::kWireVersion + 1) +
             " of the link protocol and the accepting rank version " + std::to_string(links::kWireVersion);
  }
  SECTION("job") {
    connects.job_id[0] = std::byte{0xab};
    needle = "rank 3 belongs to job ab07";
  }
  SECTION("epoch") {
    connects.epoch = 17;
    needle = "rank 3 is in epoch 17 of the job, rank 0 in epoch 1";
  }
  SECTION("wanted rank") {
    wanted = 2;
    needle = "rank 3 wants to reach rank 2, but this is rank 0";
  }
  SECTION("own rank") {
    connects.rank = 0;
    needle = "rank 0 wants to reach rank 0";
  }
  const auto outcome = shake(connects, accepts, wanted);
  CHECK_FALSE(outcome.both_done);
  CHECK_THAT(outcome.acceptor.message(), Contains(needle));
  CHECK_THAT(outcome.connector.message(), Contains("refused: ") && Contains(needle));
}

TEST_CASE("a rank that is not expected is refused, and one that proved itself too late as well") {
  auto connector = links::Handshake::connect(self_of(world_of(3, kSize)), 0).take();
  auto acceptor = links::Handshake::accept(self_of(world_of(0, kSize)), [](Rank) { return false; }).take();
  CHECK_THAT(shake(connector, acceptor).connector.message(), Contains("rank 3 is not expected here"));

  int asked = 0;
  auto second = links::Handshake::connect(self_of(world_of(3, kSize)), 0).take();
  auto once =
      links::Handshake::accept(self_of(world_of(0, kSize)), [&](Rank) { return ++asked == 1; }).take();
  const auto outcome = shake(second, once);
  CHECK_FALSE(outcome.both_done);
  CHECK_THAT(outcome.connector.message(), Contains("is already linked to rank 0"));
}

TEST_CASE("an answer can be neither reflected nor replayed") {
  const auto self = self_of(world_of(3, kSize));
  Status status;
  SECTION("its own hello") {
    auto connector = links::Handshake::connect(self, 0).take();
    const std::vector<std::byte> hello(connector.outgoing().begin(), connector.outgoing().end());
    CHECK_FALSE(connector.receive(std::span(hello).first(connector.wanted())).is_ok());
  }
  SECTION("the welcome of an earlier handshake") {
    auto connector = links::Handshake::connect(self, 0).take();
    auto acceptor = links::Handshake::accept(self_of(world_of(0, kSize)), kAnybody).take();
    move_all(connector, acceptor, status);
    const std::vector<std::byte> welcome(acceptor.outgoing().begin(), acceptor.outgoing().end());
    auto later = links::Handshake::connect(self, 0).take();
    status = feed(later, welcome);
    CHECK(later.failed());
    CHECK_THAT(status.message(), Contains("key"));
  }
  SECTION("the acceptor's MAC as the connector's proof") {
    auto connector = links::Handshake::connect(self, 0).take();
    auto acceptor = links::Handshake::accept(self_of(world_of(0, kSize)), kAnybody).take();
    move_all(connector, acceptor, status);
    const std::vector<std::byte> welcome(acceptor.outgoing().begin(), acceptor.outgoing().end());
    move_all(acceptor, connector, status);
    std::vector<std::byte> proof(connector.outgoing().begin(), connector.outgoing().end());
    std::copy(welcome.end() - 32, welcome.end(), proof.end() - 32);
    CHECK_FALSE(feed(acceptor, proof).is_ok());
    CHECK_FALSE(acceptor.done());
  }
}

TEST_CASE("random bytes never finish a handshake and never break it") {
  std::mt19937 random(20240501);
  for (int round = 0; round < 2000; ++round) {
    auto connector = links::Handshake::connect(self_of(world_of(3, kSize)), 0).take();
    auto acceptor = links::Handshake::accept(self_of(world_of(0, kSize)), kAnybody).take();
    // Damages one byte of the real conversation in one direction, or sends noise from some point on.
    const std::size_t damaged = random() % 400;
    const bool noise = random() % 2 == 0;
    std::size_t position = 0;
    Status status;
    const auto move = [&](links::Handshake& from, links::Handshake& to) {
      const auto out = from.outgoing();
      const std::size_t count = std::min({out.size(), to.wanted(), std::size_t{1} + random() % 80});
      if (count == 0) return false;
      std::vector<std::byte> bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
      for (auto& byte : bytes) {
        if (position == damaged || (noise && position > damaged))
          byte ^= static_cast<std::byte>(1 + random() % 255);
        ++position;
      }
      from.sent(count);
      if (const auto now = to.receive(bytes); !now.is_ok()) status = now;
      return true;
    };
    while (move(connector, acceptor) | move(acceptor, connector)) {
    }
    const bool touched = position > damaged;
    INFO("round " << round << ", damaged byte " << damaged << " of " << position);
    CHECK((connector.done() && acceptor.done()) == !touched);
  }
}

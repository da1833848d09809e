#include "runtime/links/address_trials.h"

#include <catch2/catch.hpp>

#include "runtime/links/tcp_link.h"
#include "tests/patience.h"
#include "tests/runtime/links/ranks.h"

using namespace dabke;
using namespace dabke::test;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

const SocketAddress kLoopback = SocketAddress::of_host("127.0.0.1").take();

std::unique_ptr<TrialListener> door_of(const World& world) {
  return TrialListener::open(self_of(world), std::vector{kLoopback}).take();
}

Trial tried(const World& by, Rank rank, const SocketAddress& address, double limit) {
  std::vector<Trial> trials{{.rank = rank, .address = address}};
  REQUIRE(try_addresses(self_of(by), trials, deadline_after(limit)).is_ok());
  return trials.front();
}

/// With a limit in which there was an answer: where the address does not count, the trials go on until it is over.
Trial answered(const World& by, Rank rank, const SocketAddress& address) {
  return with_enough_time(
      0.5, [&](double limit) { return tried(by, rank, address, limit); },
      [](const Trial& trial) { return trial.outcome != Trial::Outcome::none; });
}

}  // namespace

TEST_CASE("an address counts as reached when the rank that should be there proves itself") {
  const auto door = door_of(world_of(1, 3));
  const auto trial = tried(world_of(0, 3), 1, door->listens_at().front(), 60);
  CHECK(trial.outcome == Trial::Outcome::reached);
}

TEST_CASE("an address of another rank, of this one, of another job or of a stranger does not count") {
  const auto door = door_of(world_of(1, 3));
  const SocketAddress at = door->listens_at().front();
  const auto of_another = answered(world_of(0, 3), 2, at);
  CHECK(of_another.outcome == Trial::Outcome::failed);
  CHECK_THAT(of_another.trouble, Contains("but this is rank 1"));
  CHECK(answered(world_of(1, 3), 0, at).outcome == Trial::Outcome::failed);
  World other_key = world_of(0, 3);
  other_key.job_key.fill(std::byte{1});
  CHECK_THAT(answered(other_key, 1, at).trouble, Contains("key"));
  World other_epoch = world_of(0, 3);
  other_epoch.epoch = 9;
  CHECK(answered(other_epoch, 1, at).outcome == Trial::Outcome::failed);
  const Fd mute = tcp_listen(kLoopback).take();
  CHECK(tried(world_of(0, 3), 1, *SocketAddress::local_of(mute.get()), 0.5).outcome == Trial::Outcome::none);
}

TEST_CASE(
    "where nothing has answered all is tried again, and where something has nobody waits for the rest") {
  const World self = world_of(0, 2);
  const Fd mute = tcp_listen(kLoopback).take();
  const SocketAddress silent = *SocketAddress::local_of(mute.get());
  SocketAddress free;
  {
    const Fd closed = tcp_listen(address_of_our_own()).take();
    free = *SocketAddress::local_of(closed.get());
  }
  const auto door = door_of(world_of(1, 2));
  std::vector<Trial> trials{{.rank = 1, .address = door->listens_at().front()},
                            {.rank = 1, .address = silent},
                            {.rank = 1, .address = free}};
  const TimePoint begin = Clock::now();
  REQUIRE(try_addresses(self_of(self), trials, begin + 60s).is_ok());
  CHECK(Clock::now() - begin < 30s);
  CHECK(trials[0].outcome == Trial::Outcome::reached);
  CHECK(trials[1].outcome == Trial::Outcome::none);
  CHECK(trials[2].outcome == Trial::Outcome::failed);
}

TEST_CASE("a rank that comes later than the first attempts is reached") {
  const SocketAddress closed = *SocketAddress::local_of(tcp_listen(address_of_our_own()).take().get());
  std::vector<Trial> trials{{.rank = 1, .address = closed}};
  std::unique_ptr<TrialListener> late;
  std::jthread opens([&] {
    std::this_thread::sleep_for(300ms);
    late = TrialListener::open(self_of(world_of(1, 2)), std::vector{closed}).take();
  });
  REQUIRE(try_addresses(self_of(world_of(0, 2)), trials, Clock::now() + 60s).is_ok());
  opens.join();
  CHECK(trials.front().outcome == Trial::Outcome::reached);
}

TEST_CASE("a door leaves out addresses that this host does not have, and keeps nothing open") {
  const std::size_t before = open_descriptors();
  {
    const std::vector addresses{SocketAddress::of_host("203.0.113.7").take(), kLoopback};
    const auto door = TrialListener::open(self_of(world_of(1, 2)), addresses);
    REQUIRE(door.is_ok());
    CHECK((*door)->listens_at()[0].port() == 0);
    CHECK((*door)->listens_at()[1].port() != 0);
    CHECK_FALSE(TrialListener::open(self_of(world_of(1, 2)), std::span(addresses).first(1)).is_ok());
  }
  CHECK(open_descriptors() == before);
}

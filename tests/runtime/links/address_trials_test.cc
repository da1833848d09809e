#include <thread>

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

const links::SocketAddress kLoopback = links::SocketAddress::of_host("127.0.0.1").take();

std::unique_ptr<links::TrialListener> door_of(const World& world) {
  return links::TrialListener::open(self_of(world), std::vector{kLoopback}).take();
}

links::Trial tried(const World& by, Rank rank, const links::SocketAddress& address, double limit) {
  std::vector<links::Trial> trials{{.rank = rank, .address = address}};
  REQUIRE(links::try_addresses(self_of(by), trials, deadline_after(limit)).is_ok());
  return trials.front();
}

/// The result within a limit that gives an answer. If an address does not
/// count, trials go on until the limit.
links::Trial answered(const World& by, Rank rank, const links::SocketAddress& address) {
  return with_enough_time(
      0.5, [&](double limit) { return tried(by, rank, address, limit); },
      [](const links::Trial& trial) { return trial.outcome != links::Trial::Outcome::none; });
}

}  // namespace

TEST_CASE("an address counts as reached when the rank that should be there proves itself") {
  const auto door = door_of(world_of(1, 3));
  const auto trial = tried(world_of(0, 3), 1, door->listens_at().front(), 60);
  CHECK(trial.outcome == links::Trial::Outcome::reached);
}

TEST_CASE("an address of another rank, of this one, of another job or of a stranger does not count") {
  const auto door = door_of(world_of(1, 3));
  const links::SocketAddress at = door->listens_at().front();
  const auto of_another = answered(world_of(0, 3), 2, at);
  CHECK(of_another.outcome == links::Trial::Outcome::failed);
  CHECK_THAT(of_another.trouble, Contains("but this is rank 1"));
  CHECK(answered(world_of(1, 3), 0, at).outcome == links::Trial::Outcome::failed);
  World other_key = world_of(0, 3);
  other_key.job_key.fill(std::byte{1});
  CHECK_THAT(answered(other_key, 1, at).trouble, Contains("key"));
  World other_epoch = world_of(0, 3);
  other_epoch.epoch = 9;
  CHECK(answered(other_epoch, 1, at).outcome == links::Trial::Outcome::failed);
  const Fd mute = links::tcp_listen(kLoopback).take();
  CHECK(tried(world_of(0, 3), 1, *links::SocketAddress::local_of(mute.get()), 0.5).outcome ==
        links::Trial::Outcome::none);
}

TEST_CASE(
    "where nothing has answered all is tried again, and where something has nobody waits for the rest") {
  const World self = world_of(0, 2);
  const Fd mute = links::tcp_listen(kLoopback).take();
  const links::SocketAddress silent = *links::SocketAddress::local_of(mute.get());
  links::SocketAddress free;
  {
    const Fd closed = links::tcp_listen(address_of_our_own()).take();
    free = *links::SocketAddress::local_of(closed.get());
  }
  const auto door = door_of(world_of(1, 2));
  std::vector<links::Trial> trials{{.rank = 1, .address = door->listens_at().front()},
                                   {.rank = 1, .address = silent},
                                   {.rank = 1, .address = free}};
  const TimePoint begin = Clock::now();
  REQUIRE(links::try_addresses(self_of(self), trials, begin + 60s).is_ok());
  CHECK(Clock::now() - begin < 30s);
  CHECK(trials[0].outcome == links::Trial::Outcome::reached);
  CHECK(trials[1].outcome == links::Trial::Outcome::none);
  CHECK(trials[2].outcome == links::Trial::Outcome::failed);
}

TEST_CASE("a rank that comes later than the first attempts is reached") {
  const links::SocketAddress closed =
      *links::SocketAddress::local_of(links::tcp_listen(address_of_our_own()).take().get());
  std::vector<links::Trial> trials{{.rank = 1, .address = closed}};
  std::unique_ptr<links::TrialListener> late;
  std::jthread opens([&] {
    std::this_thread::sleep_for(300ms);
    late = links::TrialListener::open(self_of(world_of(1, 2)), std::vector{closed}).take();
  });
  REQUIRE(links::try_addresses(self_of(world_of(0, 2)), trials, Clock::now() + 60s).is_ok());
  opens.join();
  CHECK(trials.front().outcome == links::Trial::Outcome::reached);
}

TEST_CASE("a door leaves out addresses that this host does not have, and keeps nothing open") {
  const std::size_t before = open_descriptors();
  {
    const std::vector addresses{links::SocketAddress::of_host("203.0.113.7").take(), kLoopback};
    const auto door = links::TrialListener::open(self_of(world_of(1, 2)), addresses);
    REQUIRE(door.is_ok());
    CHECK((*door)->listens_at()[0].port() == 0);
    CHECK((*door)->listens_at()[1].port() != 0);
    CHECK_FALSE(links::TrialListener::open(self_of(world_of(1, 2)), std::span(addresses).first(1)).is_ok());
  }
  CHECK(open_descriptors() == before);
}

#include "launcher/elastic/meetings.h"

#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/bootstrap/elastic/answer.h"
#include "runtime/bootstrap/elastic/meeting.h"
#include "runtime/store/init_failure.h"
#include "runtime/store/init_watch.h"
#include "runtime/store/store.h"
#include "tests/launcher/elastic/served_job.h"
#include "tests/patience.h"
#include "tests/run_ranks.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using namespace launcher;
using bootstrap::EpochPlace;
using bootstrap::LeftInOrder;

bootstrap::Arrival arrival_of(WorkerId worker, std::uint64_t visit, std::uint64_t epoch,
                              std::optional<std::uint64_t> commit = {}) {
  return {.worker = worker,
          .visit = visit,
          .epoch = epoch,
          .commit = commit,
          .host = "a",
          .process = {},
          .process_sets = ""};
}

/// Comes to the meeting, and returns the place, which there must be.
EpochPlace come(store::Store& job, const bootstrap::Arrival& arrival) {
  auto met = come_to_meeting(job, arrival, Clock::now() + kPatience);
  if (!met.is_ok()) throw std::runtime_error(met.status().message());
  return std::get<EpochPlace>(met.take());
}

/// Waits for the threads, and throws what one of them has thrown.
void join(RankThreads& threads) {
  if (const std::exception_ptr thrown = threads.join()) std::rethrow_exception(thrown);
}

}  // namespace

TEST_CASE("an answer is read as it was written") {
  using bootstrap::Answer;
  for (const Answer& answer :
       {Answer{Answer::Kind::joined, 7, ""}, Answer{Answer::Kind::left, 0, "host b is no longer listed"},
        Answer{Answer::Kind::written_off, 0, "too late"}})
    CHECK(bootstrap::read_answer(to_text(answer)) == answer);
  for (const char* text : {"", "joined", "joined x", "came 3", "left"})
    CHECK_FALSE(bootstrap::read_answer(text));
}

TEST_CASE("members that still form their epoch are told when one of them is lost, also on another host") {
  ServedJob job(limits_of(2, 1), {{"a", 1}, {"b", 1}});
  World world;
  world.size = 2;
  world.hosts = {"a", "b"};
  const auto store = store::watch_init(store::with_prefix(job.client(), "3"), world, {});
  job.record_loss(2, "rank 0 on a was killed by SIGKILL (signal 9)");  // in the epoch before
  CHECK(store::await_trouble(*store, store::look_interval(2) + 100ms).is_ok());
  job.record_loss(3, "rank 1 on b was killed by SIGKILL (signal 9)");
  const Status trouble = store::await_trouble(*store, kPatience);
  CHECK(trouble.code() == Code::peer_lost);
  CHECK(trouble.message() == "rank 1 on b was killed by SIGKILL (signal 9)");
}

TEST_CASE("processes meet, lose rank 0, and meet again: all have read the same plan") {
  ServedJob job(limits_of(4, 1), {{"a", 4}});
  std::vector<EpochPlace> first(4), second(4);
  RankThreads threads(4, [&](int worker) {
    const auto store = job.client();
    first[static_cast<std::size_t>(worker)] = come(*store, arrival_of(worker, 1, 0));
    if (worker == 0) return job.ends(0, "killed by SIGKILL");
    const std::uint64_t commit = worker == 2 ? 6 : 5;  // an operation ended well on one rank alone
    second[static_cast<std::size_t>(worker)] = come(*store, arrival_of(worker, 2, 1, commit));
  });
  join(threads);
  for (int worker = 0; worker < 4; ++worker) {
    CHECK(first[static_cast<std::size_t>(worker)].rank == worker);
    CHECK(first[static_cast<std::size_t>(worker)].plan == first[0].plan);
  }
  for (int worker = 1; worker < 4; ++worker) {
    const EpochPlace& place = second[static_cast<std::size_t>(worker)];
    CHECK(place.rank == worker - 1);
    CHECK(place.plan == second[1].plan);
    CHECK(place.plan.holders() == std::vector{1});
    REQUIRE(place.plan.lost.size() == 1);
    CHECK(place.plan.lost[0].rank == 0);
  }
}

TEST_CASE("a process that was written off is told so, and one whose host is left ends in good order") {
  ServedJob job(limits_of(2, 1), {{"a", 1}, {"b", 1}});
  std::optional<Status> written_off;
  std::array<bool, 2> left{};
  RankThreads threads(2, [&](int worker) {
    const auto store = job.client();
    (void)come(*store, arrival_of(worker, 1, 0));
    if (worker == 0) job.use({{"a", 1}});
    if (const auto change = store->get(bootstrap::change_key(1), Clock::now() + kPatience); !change.is_ok())
      throw std::runtime_error(change.status().message());
    const auto met = come_to_meeting(*store, arrival_of(worker, 2, 1, 1), Clock::now() + kPatience);
    left[static_cast<std::size_t>(worker)] = met.is_ok() && std::holds_alternative<LeftInOrder>(*met);
    if (worker == 1) {
      const auto late = come_to_meeting(*store, arrival_of(worker, 3, 1, 1), Clock::now() + kPatience);
      written_off = late.status();
    }
  });
  join(threads);
  CHECK(left == std::array{false, true});
  REQUIRE(written_off);
  CHECK(written_off->code() == Code::aborted);
  CHECK_THAT(written_off->message(), Catch::Contains("written off"));
}

TEST_CASE("a process that nobody answers waits until its deadline") {
  ServedJob job(limits_of(2, 2), {{"a", 2}});
  const auto met = come_to_meeting(*job.client(), arrival_of(0, 1, 0), Clock::now() + 50ms);
  CHECK(met.status().code() == Code::timeout);
}

}  // namespace dabke::test

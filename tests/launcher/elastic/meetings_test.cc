#include "launcher/elastic/meetings.h"

#include <poll.h>

#include <array>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/bootstrap/elastic/answer.h"
#include "runtime/bootstrap/elastic/meeting.h"
#include "runtime/store/http_store.h"
#include "runtime/store/rendezvous_server.h"
#include "runtime/store/store.h"
#include "tests/patience.h"
#include "tests/run_ranks.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using namespace launcher;
using bootstrap::EpochPlace;
using bootstrap::LeftInOrder;

/// dabkerun without processes: a served store, its meetings and the membership, driven by a thread. Processes
/// are threads of the test.
class Served {
 public:
  Served(MembershipLimits limits, std::vector<Host> hosts) : membership_(limits) {
    meetings_ = Meetings::open("job").take();
    server_ = store::RendezvousServer::listen({"127.0.0.1"}, {}, {}).take();
    server_->on_set(
        [this](const std::string& key, const std::string& value) { meetings_->offer(key, value); });
    REQUIRE(server_->start().is_ok());
    membership_.set_hosts(std::move(hosts), Clock::now());
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) turn();
    });
  }

  /// The job's part of the store, for one process.
  std::shared_ptr<store::Store> client() const {
    return store::with_prefix(store::open_http_store(server_->url(), {}, {}).take(), "job");
  }
  void ends(WorkerId worker, const std::string& failure) {
    const std::lock_guard lock(mutex_);
    membership_.take_end(worker, failure, Clock::now());
  }
  void use(std::vector<Host> hosts) {
    const std::lock_guard lock(mutex_);
    membership_.set_hosts(std::move(hosts), Clock::now());
  }

 private:
  void turn() {
    pollfd entry{meetings_->event(), POLLIN, 0};
    (void)::poll(&entry, 1, 5);
    const std::lock_guard lock(mutex_);
    for (const auto& arrival : meetings_->take_arrivals()) membership_.take_arrival(arrival, Clock::now());
    membership_.tick(Clock::now());
    for (const auto& action : membership_.take_actions())
      meetings_->publish(
          action, [&](const std::string& key, std::string value) { server_->set(key, std::move(value)); });
  }

  std::mutex mutex_;
  Membership membership_;
  std::unique_ptr<Meetings> meetings_;
  std::unique_ptr<store::RendezvousServer> server_;
  std::jthread thread_;
};

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

MembershipLimits limits_of(int np, int min_np) {
  return {.first_np = np, .min_np = min_np, .max_np = np, .spares = 0, .reset_limit = {}};
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

TEST_CASE("processes meet, lose rank 0, and meet again: all have read the same plan") {
  Served job(limits_of(4, 1), {{"a", 4}});
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
  Served job(limits_of(2, 1), {{"a", 1}, {"b", 1}});
  std::optional<Status> written_off;
  std::array<bool, 2> left{};
  RankThreads threads(2, [&](int worker) {
    const auto store = job.client();
    (void)come(*store, arrival_of(worker, 1, 0));
    if (worker == 0) job.use({{"a", 1}});
    if (const auto change = store->get(bootstrap::kChangeKey, Clock::now() + kPatience); !change.is_ok())
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
  Served job(limits_of(2, 2), {{"a", 2}});
  const auto met = come_to_meeting(*job.client(), arrival_of(0, 1, 0), Clock::now() + 50ms);
  CHECK(met.status().code() == Code::timeout);
}

}  // namespace dabke::test

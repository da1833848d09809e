#include "runtime/bootstrap/roster.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <semaphore>
#include <set>
#include <thread>
#include <utility>

#include "runtime/base/ended_rank.h"
#include "runtime/bootstrap/placement_note.h"
#include "runtime/store/http_store.h"
#include "runtime/store/rendezvous_server.h"
#include "tests/child_process.h"
#include "tests/patience.h"
#include "tests/run_ranks.h"
#include "tests/runtime/links/ranks.h"
#include "tests/temporary_directory.h"

using namespace dabke;
using namespace dabke::test;
using namespace std::chrono_literals;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

/// A place to meet, as a launcher's store or as a directory. Each rank has a client of its own.
class MeetingPlace {
 public:
  explicit MeetingPlace(bool is_served) {
    if (!is_served) return;
    server_ = store::RendezvousServer::listen({"127.0.0.1"}, {}, {}).take();
    REQUIRE(server_->start().is_ok());
  }
  std::shared_ptr<store::Store> client() const {
    return server_ ? store::open_http_store(server_->url(), {}, {}).take()
                   : store::open_file_store(directory_.path()).take();
  }
  std::size_t files() const { return directory_.files(); }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<store::RendezvousServer> server_;
};

/// A store from which this rank can no longer read a key.
class UnreadableStore final : public store::Store {
 public:
  UnreadableStore(std::shared_ptr<store::Store> store, std::string key)
      : store_(std::move(store)), key_(std::move(key)) {}
  Status set(const std::string& key, std::string_view value) override { return store_->set(key, value); }
  Result<std::string> get(const std::string& key, TimePoint deadline) override {
    auto value = store_->get(key, deadline);  // an immediate failure would come before the other ranks
    if (key == key_ && value.is_ok())
      return Status(Code::transport, "cannot read " + key + ": Too many open files");
    return value;
  }
  Result<std::uint64_t> increment(const std::string& key) override { return store_->increment(key); }
  Status remove_all(const std::string& prefix) override { return store_->remove_all(prefix); }
  std::string describe() const override { return store_->describe(); }

 private:
  const std::shared_ptr<store::Store> store_;
  const std::string key_;
};

/// A store that delays this rank. The rank reads the roster of the first epoch,
/// finds none, and goes on in the second.
class DozingStore final : public store::Store {
 public:
  explicit DozingStore(std::shared_ptr<store::Store> store) : store_(std::move(store)) {}
  Status set(const std::string& key, std::string_view value) override { return store_->set(key, value); }
  Result<std::string> get(const std::string& key, TimePoint deadline) override {
    if (key != "1/roster" || std::exchange(has_dozed_, true)) return store_->get(key, deadline);
    const auto is_in_the_second = [&] {
      const auto opened = store_->get("opened", deadline_after(0.01));
      return opened.is_ok() && opened->starts_with("2 ");
    };
    while (!is_in_the_second() && Clock::now() < wakes_at_last_) std::this_thread::sleep_for(1ms);
    return Status(Code::timeout, "it was not there");
  }
  Result<std::uint64_t> increment(const std::string& key) override { return store_->increment(key); }
  Status remove_all(const std::string& prefix) override { return store_->remove_all(prefix); }
  std::string describe() const override { return store_->describe(); }

 private:
  const std::shared_ptr<store::Store> store_;
  const TimePoint wakes_at_last_ = deadline_after(60);
  bool has_dozed_ = false;
};

Config patient(double seconds) {
  Config config;
  config.start_timeout = seconds;
  return config;
}

/// "epoch 2: a b c", or the error.
std::string seen(const Result<bootstrap::Roster>& roster) {
  if (!roster.is_ok()) return roster.status().message();
  std::string text = fmt::format("epoch {}:", roster->epoch);
  for (const std::string& host : roster->hosts) text += " " + host;
  return text;
}

/// Runs a process with this rank through init. The name of its host identifies it.
std::string come(const MeetingPlace& place, Rank rank, int size, const std::string& host,
                 double timeout = 60) {
  const auto store = place.client();
  const Config config = patient(timeout);
  return seen(bootstrap::meet(*store, {rank, size, host, ""}, config, deadline_after(timeout)));
}

/// Runs several processes, each with its index as rank.
std::vector<std::string> come_all(const MeetingPlace& place, const std::vector<std::string>& processes) {
  const int size = static_cast<int>(processes.size());
  return run_ranks(
      size, [&](Rank rank) { return come(place, rank, size, processes[static_cast<std::size_t>(rank)]); });
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> all_see(std::size_t count, const std::string& text) {
  return std::vector<std::string>(count, text);
}

}  // namespace

TEST_CASE("a job of four goes on as three with other numbers, then as five with two that are new") {
  const MeetingPlace place(GENERATE(false, true));
  CHECK(come_all(place, {"a", "b", "c", "d"}) == all_see(4, "epoch 1: a b c d"));
  CHECK(come_all(place, {"d", "b", "a"}) == all_see(3, "epoch 2: d b a"));
  CHECK(come_all(place, {"b", "new", "d", "a", "newer"}) == all_see(5, "epoch 3: b new d a newer"));
}

TEST_CASE("who is new waits for an epoch that has room for it, however early it came") {
  const MeetingPlace place(GENERATE(false, true));
  CHECK(come_all(place, {"a", "b"}) == all_see(2, "epoch 1: a b"));
  std::vector<std::string> news(2);
  std::jthread third([&] { news[0] = come(place, 3, 4, "d"); });
  std::jthread second([&] { news[1] = come(place, 2, 4, "c"); });
  // Both are waiting: they have set their keys.
  for (const char* const rank : {"waiting/3", "waiting/2"})
    REQUIRE(place.client()->get(rank, deadline_after(60)).is_ok());
  CHECK(come_all(place, {"b", "a"}) == all_see(2, "epoch 2: b a"));
  auto old = run_ranks(2, [&](Rank rank) { return come(place, rank, 4, rank == 0 ? "a" : "b"); });
  third.join();
  second.join();
  CHECK(old == all_see(2, "epoch 3: a b c d"));
  CHECK(news == all_see(2, "epoch 3: a b c d"));
}

TEST_CASE(
    "who is new disturbs no epoch of the others, though it will have a number that one of them has now") {
  const MeetingPlace place(GENERATE(false, true));
  const auto store = place.client();
  CHECK(come_all(place, {"a", "b", "c"}) == all_see(3, "epoch 1: a b c"));
  std::string root, added;
  std::jthread first([&] { root = come(place, 0, 3, "a"); });
  REQUIRE(store->get("opened", deadline_after(60)).is_ok());
  std::jthread new_one([&] { added = come(place, 1, 4, "new"); });
  REQUIRE(*store->get("waiting/1", deadline_after(60)) == "4");
  const auto others =
      run_ranks(2, [&](Rank rank) { return come(place, rank + 1, 3, rank == 0 ? "b" : "c"); });
  first.join();
  CHECK(others == all_see(2, "epoch 2: a b c"));
  CHECK(root == "epoch 2: a b c");
  const auto grown = run_ranks(3, [&](Rank rank) {
    return come(place, rank == 0 ? 0 : rank + 1, 4, std::string(1, static_cast<char>('a' + rank)));
  });
  new_one.join();
  CHECK(grown == all_see(3, "epoch 3: a new b c"));
  CHECK(added == "epoch 3: a new b c");
}

TEST_CASE("ranks of a later epoch that mean different sizes learn both when the time is up") {
  const bool is_served = GENERATE(false, true);
  const std::string text = "rank 0 was started with a size of 2, rank 1 with a size of 3";
  const auto errors = with_enough_time(
      1,
      [&](double seconds) {
        const MeetingPlace place(is_served);
        CHECK(come_all(place, {"a", "b"}) == all_see(2, "epoch 1: a b"));
        return run_ranks(2, [&](Rank rank) { return come(place, rank, rank == 0 ? 2 : 3, "h", seconds); });
      },
      [&](const auto& seen) { return says(seen[0], text) && says(seen[1], text); });
  for (const std::string& error : errors) CHECK_THAT(error, Contains(text));
}

TEST_CASE("while rank 0 waits it says how many have come, and who has not with their host") {
  const MeetingPlace place(GENERATE(false, true));
  REQUIRE(place.client()
              ->set(bootstrap::kPlacementKey, bootstrap::placement_note({"a", "a", "b", "b", "b"}))
              .is_ok());
  std::binary_semaphore told(0);
  std::string line, root;
  std::jthread first([&] {
    const auto store = place.client();
    const bootstrap::WaitReports reports{[&](const std::string& text) {
                                           if (std::exchange(line, text).empty()) told.release();
                                         },
                                         50ms, 10s};
    root = seen(bootstrap::meet(*store, {0, 5, "a", ""}, patient(60), deadline_after(60), reports));
  });
  std::jthread second([&] { come(place, 3, 5, "b"); });
  told.acquire();
  const auto others =
      run_ranks(3, [&](Rank i) { return come(place, i < 2 ? i + 1 : 4, 5, i == 0 ? "a" : "b"); });
  first.join();
  CHECK(root == "epoch 1: a a b b b");
  CHECK(others == all_see(3, "epoch 1: a a b b b"));
  CHECK_THAT(line, Contains(" of 5 ranks have called dabke_init; waiting for rank") && Contains("on b") &&
                       EndsWith(" (for 60 s at most: DABKE_START_TIMEOUT_SECONDS)"));
}

TEST_CASE("rank 1 says that rank 0 has not come, and the error names hosts, too") {
  const MeetingPlace place(true);
  const auto store = place.client();
  REQUIRE(store->set(bootstrap::kPlacementKey, bootstrap::placement_note({"a", "b", "b"})).is_ok());
  std::string line;
  const bootstrap::WaitReports reports{[&](const std::string& text) { line = text; }, 300ms, 100s};
  const std::string error = with_enough_time(
      0.5,
      [&](double seconds) {
        return seen(
            bootstrap::meet(*store, {1, 3, "b", ""}, patient(seconds), deadline_after(seconds), reports));
      },
      [&](const std::string&) { return !line.empty(); });
  CHECK_THAT(line, StartsWith("waiting for rank 0 on a, which has not called dabke_init"));
  CHECK_THAT(error, Contains("rank 0 on a, rank 2 on b did not call dabke_init within ") &&
                        Contains("; start all 3 ranks"));
}

TEST_CASE("what a rank that died in an init has left does not come into the next roster") {
  const MeetingPlace place(GENERATE(false, true));
  const auto store = place.client();
  SECTION("rank 0, with its roster open, while another waits for it") {
    REQUIRE(*store->increment("epoch") == 1);
    REQUIRE(store->set("1/hello/0", "dead\n2\nghost\n\n-\n").is_ok());
    REQUIRE(store->set("opened", "1 2").is_ok());
    std::string waited;
    std::jthread other([&] { waited = come(place, 1, 2, "b"); });
    REQUIRE(store->get("1/hello/1", deadline_after(60)).is_ok());
    CHECK(come(place, 0, 2, "a") == "epoch 2: a b");
    other.join();
    CHECK(waited == "epoch 2: a b");
  }
  SECTION("rank 0, between the last hello and the roster") {
    REQUIRE(*store->increment("epoch") == 1);
    REQUIRE(store->set("1/hello/0", "dead\n2\nghost\n\n-\n").is_ok());
    REQUIRE(store->set("1/hello/1", "dead\n2\nghost\n\n-\n").is_ok());
    CHECK(come_all(place, {"a", "b"}) == all_see(2, "epoch 2: a b"));
  }
  SECTION("another, whose place a new process takes before rank 0 has looked") {
    std::string root;
    std::jthread first([&] { root = come(place, 0, 3, "a"); });
    REQUIRE(store->get("opened", deadline_after(60)).is_ok());
    REQUIRE(store->set("1/hello/2", "dead\n3\nghost\n\n-\n").is_ok());
    std::string third;
    std::jthread again([&] { third = come(place, 2, 3, "c"); });
    while (store->get("1/hello/2", deadline_after(60)).take().starts_with("dead")) std::this_thread::yield();
    CHECK(come(place, 1, 3, "b") == "epoch 1: a b c");
    first.join();
    again.join();
    CHECK(root == "epoch 1: a b c");
    CHECK(third == "epoch 1: a b c");
  }
  SECTION("another, whose place a new process takes after rank 0 has looked") {
    std::string root;
    std::jthread first([&] { root = come(place, 0, 2, "a"); });
    REQUIRE(store->get("opened", deadline_after(60)).is_ok());
    REQUIRE(store->set("1/hello/1", "dead\n2\nghost\n\n-\n").is_ok());
    first.join();
    CHECK(root == "epoch 1: a ghost");  // its links to the dead rank fail, so all ranks come again
    CHECK(come_all(place, {"a", "b"}) == all_see(2, "epoch 2: a b"));
  }
}

TEST_CASE("a rank that was killed after it had come is named, and not waited for") {
  const MeetingPlace place(false);  // the thread of a server would not exist in the child
  const auto store = place.client();
  const Rank victim = GENERATE(0, 1);
  ChildProcess child([&] {
    (void)come(place, victim, 3, "gone", 60);
    return 1;
  });
  std::string other;
  std::jthread waits([&] { other = come(place, 1 - victim, 3, "a", 3600); });
  for (const Rank rank : {0, 1})
    REQUIRE(store->get(fmt::format("1/hello/{}", rank), deadline_after(60)).is_ok());
  child.kill();
  waits.join();
  child.wait();
  CHECK(other == fmt::format("process {} of rank {} on gone ended in dabke_init (killed, or ended without "
                             "dabke_shutdown)",
                             child.pid(), victim));
}

TEST_CASE("a process that has ended before init ends the wait of all who need it, and of no other job") {
  const MeetingPlace place(GENERATE(false, true));
  const Rank missing = GENERATE(0, 1, 2);
  const EndedRank ended{.rank = missing, .size = 3, .pid = 77, .status = 0, .host = "h"};
  REQUIRE(place.client()->set(kFirstEndedKey, to_text(ended)).is_ok());
  const auto seen_by =
      run_ranks(2, [&](Rank i) { return come(place, i < missing ? i : i + 1, 3, "a", 3600); });
  const std::string why = fmt::format(
      "rank {} on h ended with status 0 before calling dabke_init; all 3 ranks must call it", missing);
  CHECK(seen_by == all_see(2, why));
  // A job of some of dabkerun's processes, with numbers of their own.
  for (const std::string& seen : run_ranks(2, [&](Rank rank) { return come(place, rank, 2, "a", 3600); }))
    CHECK_FALSE(says(seen, "ended"));
}

TEST_CASE("all learn of a store that rank 0 cannot read that it is rank 0 who cannot") {
  const MeetingPlace place(GENERATE(false, true));
  const auto seen_by = run_ranks(3, [&](Rank rank) {
    if (rank != 0) return come(place, rank, 3, fmt::format("host-{}", rank));
    UnreadableStore store(place.client(), "1/hello/2");
    return seen(bootstrap::meet(store, {rank, 3, "host-0", ""}, patient(60), deadline_after(60)));
  });
  CHECK(seen_by == all_see(3, "rank 0 on host-0: cannot read 1/hello/2: Too many open files"));
}

TEST_CASE("a second process with the rank of another is told so when nothing else comes") {
  const bool is_served = GENERATE(false, true);
  const std::string text = "In epoch 1 another process is rank 2";
  const std::string twin = with_enough_time(
      1,
      [&](double seconds) {
        const MeetingPlace place(is_served);
        const auto store = place.client();
        std::string root, beside;
        std::jthread first([&] { root = come(place, 0, 3, "a"); });
        REQUIRE(store->get("opened", deadline_after(60)).is_ok());
        std::jthread second([&] { beside = come(place, 2, 3, "twin", seconds); });
        REQUIRE(store->get("1/hello/2", deadline_after(60)).is_ok());
        REQUIRE(store->set("1/hello/2", "other\n3\nc\n\n-\n").is_ok());
        CHECK(come(place, 1, 3, "b") == "epoch 1: a b c");
        second.join();
        return beside;
      },
      [&](const std::string& seen) { return says(seen, text); });
  CHECK_THAT(twin, Contains("0 (last in epoch 1)") && Contains(text));
}

TEST_CASE("a rank 0 beside another is told so, and the others are with the later one") {
  const bool is_served = GENERATE(false, true);
  const std::string text = "another process became rank 0";
  const std::string told = with_enough_time(
      2,
      [&](double seconds) {
        const MeetingPlace place(is_served);
        const auto store = place.client();
        std::string early, late;
        std::jthread first([&] { early = come(place, 0, 2, "early", seconds); });
        const bool has_opened = store->get("opened", deadline_after(seconds)).is_ok();
        if (!has_opened) return std::string("it was gone before it was seen");
        std::jthread second([&] { late = come(place, 0, 2, "late"); });
        while (*store->get("opened", deadline_after(60)) != "2 2") std::this_thread::yield();
        CHECK(come(place, 1, 2, "b") == "epoch 2: late b");
        first.join();
        second.join();
        CHECK(late == "epoch 2: late b");
        return early;
      },
      [&](const std::string& early) { return says(early, text); });
  CHECK_THAT(told, Contains(text) && Contains("epoch 1"));
}

TEST_CASE("a rank may be in its next init while another still leaves the last one") {
  const MeetingPlace place(GENERATE(false, true));
  // Rank `slow` leaves an epoch only after the others have entered the next init.
  const int slow = GENERATE(0, 1, 2);
  constexpr int kRounds = 20;
  const auto epochs = run_ranks(3, [&](Rank rank) -> std::string {
    const auto store = place.client();
    std::string all;
    for (int round = 1; round <= kRounds; ++round) {
      const Config config = patient(60);
      const auto roster =
          bootstrap::meet(*store, {rank, 3, fmt::format("h{}", rank), ""}, config, deadline_after(60));
      if (!roster.is_ok()) return roster.status().message();
      all += fmt::format("{} ", roster->epoch);
      const Rank other = slow == 0 ? 1 : 0;
      if (rank == other) {
        if (!store->set(fmt::format("test/gone-{}", round), "").is_ok()) return "no store";
      } else if (rank == slow) {
        if (!store->get(fmt::format("test/gone-{}", round), deadline_after(60)).is_ok()) return "no store";
        // The fast rank waits for the next epoch, or has opened it.
        const std::string sign = other == 0 ? "opened" : fmt::format("waiting/{}", other);
        if (round < kRounds && other == 0 && !store->get(sign, deadline_after(60)).is_ok())
          return "not opened";
      }
      if (*store::with_prefix(store, std::to_string(roster->epoch))->increment("left") == 3)
        (void)store->remove_all(std::to_string(roster->epoch));
    }
    return all;
  });
  std::string expected;
  for (int round = 1; round <= kRounds; ++round) expected += fmt::format("{} ", round);
  CHECK(epochs == all_see(3, expected));
}

TEST_CASE("who is in a roster that it finds late is in that epoch, though the next one is open") {
  const MeetingPlace place(GENERATE(false, true));
  const auto epochs = run_ranks(2, [&](Rank rank) -> std::string {
    const auto mine = place.client();
    const std::shared_ptr<store::Store> store = rank == 1 ? std::make_shared<DozingStore>(mine) : mine;
    std::string all;
    for (int round = 0; round < 2; ++round) {
      const auto roster = bootstrap::meet(*store, {rank, 2, "h", ""}, patient(60), deadline_after(60));
      if (!roster.is_ok()) return roster.status().message();
      all += fmt::format("{} ", roster->epoch);
    }
    return all;
  });
  CHECK(epochs == all_see(2, "1 2 "));
}

TEST_CASE("who comes before rank 0 names who else has not come, and not who waits as well") {
  const bool is_served = GENERATE(false, true);
  const std::string text = "ranks 0, 2 did not call dabke_init within ";
  double waited = 0;
  const auto errors = with_enough_time(
      1,
      [&](double seconds) {
        waited = seconds;
        const MeetingPlace place(is_served);
        return run_ranks(4, [&](Rank rank) {
          return rank == 1 || rank == 3 ? come(place, rank, 4, "h", seconds) : std::string();
        });
      },
      [&](const auto& seen) { return says(seen[1], text) && says(seen[3], text); });
  for (const Rank rank : {1, 3}) {
    CHECK_THAT(errors[static_cast<std::size_t>(rank)],
               Contains(fmt::format("within {} s (DABKE_START_TIMEOUT_SECONDS); start all 4 ranks, or raise "
                                    "that limit. Rank {} waited in epoch 1 at",
                                    waited, rank)) &&
                   Contains(text));
  }
}

// How jobs end: shutdown, abort, a lost rank. Every operation completes exactly once in each case.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <deque>
#include <filesystem>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"
#include "tests/in_process/threads_backend.h"
#include "tests/patience.h"
#include "tests/thread_count.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

/// Operations with callbacks that are counted.
class Counted {
 public:
  explicit Counted(Rank& self) : self_(self) {}
  ~Counted() { self_.close(); }  // no thread uses the tensors and counters after that
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void allreduce(const std::string& name, std::size_t length = 4) {
    auto& data = data_.emplace_back(length, 1.0f);
    auto& calls = calls_.emplace_back(0);
    pending_.push_back(
        self_.allreduce_async(data, {.name = name, .callback = [&calls](Operation&) { ++calls; }}));
  }
  /// The statuses in order of submission.
  std::vector<Status> wait() {
    std::vector<Status> all;
    for (const Pending& one : pending_) all.push_back(one.wait());
    return all;
  }
  /// True if each callback has run exactly once. Call it after shutdown, when all callbacks have run.
  bool each_called_once() const {
    return std::ranges::all_of(calls_, [](const std::atomic<int>& calls) { return calls == 1; });
  }

 private:
  Rank& self_;
  std::deque<std::vector<float>> data_;
  std::deque<std::atomic<int>> calls_;
  std::vector<Pending> pending_;
};

struct Ended {
  std::vector<Status> statuses;
  Status later;  // the status of a tensor submitted after the end
  bool each_called_once = false;
};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

Status submit_later(Rank& self) {
  std::vector<float> x(2);
  return self.allreduce(x, {.name = "later"});
}

}  // namespace

TEST_CASE("abort ends every pending and later operation of every rank with its reason, exactly once") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int aborting = GENERATE(0, 2);
  CAPTURE(backend, aborting);
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    Counted counted(self);
    for (int i = 0; i < 50; ++i) {
      if (i % 3 != self.rank()) counted.allreduce("never " + std::to_string(i));  // one rank never submits it
    }
    if (self.rank() == aborting) self.runtime().abort("the loss is NaN");
    Ended out{counted.wait(), submit_later(self)};
    self.close();
    out.each_called_once = counted.each_called_once();
    return out;
  });
  const std::string reason = "rank " + std::to_string(aborting) + " on " + backend.host(aborting, 3) +
                             " aborted the job: the loss is NaN";
  for (const Ended& one : seen) {
    for (const Status& status : one.statuses) {
      CHECK(status.code() == Code::aborted);
      CHECK_THAT(status.message(), Contains(reason) && Contains("'never "));
    }
    CHECK(one.later.code() == Code::aborted);
    CHECK_THAT(one.later.message(), Contains(reason));
    CHECK(one.each_called_once);
  }
}

TEST_CASE("a lost rank fails what waits for it, on every rank, with its name and host, exactly once") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int lost = GENERATE(0, 1, 2);
  CAPTURE(backend, lost);
  std::barrier everybody_has_it(3);
  Job job(backend, 3);
  const auto seen = job.run([&](Rank& self) {
    Counted counted(self);
    counted.allreduce("before");
    for (const Status& status : counted.wait()) must(status);
    everybody_has_it.arrive_and_wait();
    if (self.rank() == lost) {
      job.cut(lost);
      return Ended{};
    }
    for (int i = 0; i < 50; ++i) counted.allreduce("waits " + std::to_string(i));
    Ended out{counted.wait(), submit_later(self)};
    out.statuses.erase(out.statuses.begin());
    self.close();
    out.each_called_once = counted.each_called_once();
    return out;
  });
  const std::string name = "rank " + std::to_string(lost) + " on node";
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == lost) continue;
    const Ended& one = seen[static_cast<std::size_t>(rank)];
    for (const Status& status : one.statuses) {
      CHECK(status.code() == Code::peer_lost);
      CHECK_THAT(status.message(), Contains(name));
    }
    CHECK(one.later.code() == Code::peer_lost);
    CHECK_THAT(one.later.message(), Contains(name));
    CHECK(one.each_called_once);
  }
}

TEST_CASE("a run that fails ends the job with its tensor and rank, and its own text") {
  const Setup backend = setup_named("threads");
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<float> x(4);
    std::vector<double> fails = {self.rank() == 1 ? kFailingNumber : 1};
    const Pending waits =
        self.rank() == 0 ? self.allreduce_async(x, {.name = "waits"}) : Pending(Status(Code::aborted, ""));
    const Status own = self.allreduce(fails, {.name = "fails"});
    return std::pair(own, waits.wait());
  });
  CHECK(seen[1].first.code() == Code::transport);
  CHECK(
      seen[1].first.message() ==
      "allreduce 'fails': threads allreduce of 1 tensor (order 1), rank 1 of 2 in process set 0: the test's "
      "backend fails");
  CHECK(seen[0].second.code() == Code::transport);
  CHECK_THAT(seen[0].second.message(),
             Catch::Matchers::StartsWith("allreduce 'waits': allreduce 'fails' failed on rank 1: ") &&
                 Contains("the test's backend fails"));
}

TEST_CASE("a rank that is lost while data moves ends the runs in flight with that cause") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  std::barrier everybody_has_it(3);
  Job job(backend, 3);
  const auto seen = job.run([&](Rank& self) {
    Counted counted(self);
    counted.allreduce("before", 1 << 16);
    for (const Status& status : counted.wait()) must(status);
    everybody_has_it.arrive_and_wait();
    if (self.rank() != 2) {
      for (int i = 0; i < 20; ++i) counted.allreduce("flies " + std::to_string(i), 1 << 18);
    } else {
      for (int i = 0; i < 10; ++i) counted.allreduce("flies " + std::to_string(i), 1 << 18);
      job.cut(2);
    }
    Ended out{counted.wait(), submit_later(self)};
    self.close();
    out.each_called_once = counted.each_called_once();
    return out;
  });
  for (int rank = 0; rank < 2; ++rank) {
    const Ended& one = seen[static_cast<std::size_t>(rank)];
    CHECK(one.each_called_once);
    CHECK_FALSE(one.statuses.back().is_ok());
    for (const Status& status : one.statuses) {
      if (status.is_ok()) continue;
      CHECK(status.code() == Code::peer_lost);
      CHECK_THAT(status.message(), Contains("rank 2 on node"));
    }
    CHECK(one.later.code() == Code::peer_lost);
  }
}

TEST_CASE("shutdown by one rank fails what waits for it, by its name, while other process sets go on") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Left {
    Status world, set_of_left, later;
    std::vector<float> others = {1};
  };
  const auto seen = run_on_ranks(backend, 4, [&](Rank& self) {
    const auto first = self.add_process_set({0, 1});
    const auto second = self.add_process_set({2, 3});
    Left out;
    if (self.rank() == 3) {
      self.close();
      return out;
    }
    std::vector<float> x = {1};
    out.world = self.allreduce(x, {.name = "world"});
    if (self.rank() == 2) {
      out.set_of_left = self.allreduce(x, {.name = "pair", .set = second});
    } else {
      for (int i = 0; i < 5; ++i) must(self.allreduce(out.others, {.name = "goes on", .set = first}));
    }
    out.later = submit_later(self);
    return out;
  });
  for (int rank = 0; rank < 3; ++rank) {
    const Left& one = seen[static_cast<std::size_t>(rank)];
    CHECK(one.world.code() == Code::shut_down);
    CHECK_THAT(one.world.message(), Contains("rank 3 on " + backend.host(3, 4) + " left the job normally"));
    CHECK(one.later.code() == Code::shut_down);
  }
  CHECK(seen[2].set_of_left.code() == Code::shut_down);
  CHECK(seen[0].others == std::vector{32.0f});
  CHECK(seen[1].others == std::vector{32.0f});
}

TEST_CASE("shutdown by rank 0 ends the job for all, by its name, process sets without it too") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    const auto others = self.add_process_set({1, 2});
    std::vector<float> x = {1};
    if (self.rank() != 0) must(self.allreduce(x, {.name = "before", .set = others}));
    must(self.barrier());
    if (self.rank() == 0) {
      self.close();
      return std::pair(Status::ok(), Status::ok());
    }
    // Rank 2 never submits 'waits', so only the end of the job can complete it.
    const Status waits =
        self.rank() == 1 ? self.allreduce(x, {.name = "waits", .set = others}) : submit_later(self);
    return std::pair(waits, self.allreduce(x, {.name = "later", .set = others}));
  });
  for (const auto& [waits, later] : {seen[1], seen[2]}) {
    for (const Status& status : {waits, later}) {
      CHECK(status.code() == Code::shut_down);
      CHECK_THAT(status.message(), Contains("rank 0 on node left the job normally"));
    }
  }
}

TEST_CASE("a rank that shuts down completes what it had submitted, with a result or an error") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int leaving = GENERATE(0, 1);
  CAPTURE(backend, leaving);
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    Counted counted(self);
    for (int i = 0; i < 20; ++i) counted.allreduce("both " + std::to_string(i), 1000);
    if (self.rank() == leaving) {
      counted.allreduce("alone");
      self.close();  // while the other rank may still wait for this rank's part
    }
    Ended out{counted.wait(), submit_later(self)};
    self.close();
    out.each_called_once = counted.each_called_once();
    return out;
  });
  for (const Ended& one : seen) {
    CHECK(one.each_called_once);
    CHECK(one.later.code() == Code::shut_down);
    for (const Status& status : one.statuses) CHECK((status.is_ok() || status.code() == Code::shut_down));
  }
  CHECK(seen[static_cast<std::size_t>(leaving)].statuses.back().code() == Code::shut_down);
}

TEST_CASE("operations that every rank submitted before a barrier survive a shutdown right after it") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    Counted counted(self);
    for (int i = 0; i < 20; ++i) counted.allreduce("agreed " + std::to_string(i), 10000);
    must(self.barrier());
    self.close();
    return counted.wait();  // no operation is pending, so this does not block
  });
  for (const auto& statuses : seen) {
    for (const Status& status : statuses) CHECK(status.is_ok());
  }
}

TEST_CASE(
    "a job can be opened and closed any number of times without leaving a thread or a descriptor behind") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto once = [&](bool moves_data) {
    run_on_ranks(backend, 2, [&](Rank& self) {
      std::vector<float> x(3, 1.0f);
      if (moves_data) must(self.allreduce(x));
    });
  };
  for (int i = 0; i < 3; ++i) once(true);  // creates everything that is made once per process
  // Threads are counted first: a thread that is about to end closes its descriptors.
  const std::size_t threads = dabke::test::thread_count();
  const std::size_t descriptors = open_descriptors();
  const int times = dabke::test::kSanitized ? 10 : 200;  // a sanitizer takes 10 times as long
  // On a busy machine, the time is up after fewer jobs.
  const TimePoint enough = deadline_after(8);
  for (int i = 0; i < times && (i < 10 || Clock::now() < enough); ++i) once(i % 4 != 0);
  CHECK(dabke::test::threads_fall_to(threads));
  CHECK(open_descriptors() <= descriptors);
}

}  // namespace dabke::test

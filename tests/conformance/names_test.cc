// Names that are used twice, groups whose members arrive one by one, submissions
// from several threads, and callbacks.
#include <atomic>
#include <semaphore>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"

namespace dabke::test {

using Catch::Matchers::Contains;

TEST_CASE("a name that is still pending queues, and each submission gets its own result, in order") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    std::vector<std::vector<int>> data;
    for (int i = 0; i < 20; ++i) data.push_back({i, self.rank()});
    std::vector<Pending> pending;
    for (auto& one : data) pending.push_back(self.allreduce_async(one, {.name = "same"}));
    for (const Pending& one : pending) must(one.wait());
    return data;
  });
  std::vector<std::vector<int>> want;
  for (int i = 0; i < 20; ++i) want.push_back({3 * i, 3});
  for (const auto& one : seen) CHECK(one == want);
}

TEST_CASE(
    "with DUPLICATE_NAMES=error a name that is still pending is refused, and the first one is not harmed") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.duplicate_names = DuplicateNames::error;
  const auto seen = run_on_ranks(backend, 2, config, [&](Rank& self) {
    std::vector<int> first = {1};
    std::vector<int> second = {1};
    Status refused;
    Pending pending;
    if (self.rank() == 0) {  // rank 1 submits later, so the first call is certainly pending
      pending = self.allreduce_async(first, {.name = "same"});
      refused = self.allreduce(second, {.name = "same"});
    }
    must(self.barrier());
    if (self.rank() == 1) pending = self.allreduce_async(first, {.name = "same"});
    must(pending.wait());
    return std::pair(refused, first);
  });
  CHECK(seen[0].first.code() == Code::duplicate_name);
  CHECK_THAT(seen[0].first.message(), Contains("'same'"));
  CHECK(seen[0].second == std::vector{2});
  CHECK(seen[1].second == std::vector{2});
}

TEST_CASE(
    "with DUPLICATE_NAMES=error the call itself fails, and a grouped call takes all its names or none") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.duplicate_names = DuplicateNames::error;
  const auto seen = run_on_ranks(backend, 2, config, [&](Rank& self) {
    std::vector<int> a = {1}, b = {1}, c = {1}, d = {1}, e = {1};
    const auto pair = [&](const std::string& name, std::vector<int>& x, const std::string& other,
                          std::vector<int>& y) {
      return self.start(CollectiveKind::allreduce, {{view_of(x), {}, name}, {view_of(y), {}, other}});
    };
    std::vector<Status> refused;
    std::vector<Pending> pending;
    if (self.rank() == 0) {
      pending.push_back(pair("a", a, "b", b));
      for (const Pending& one :
           {pair("c", c, "b", d), pair("d", d, "d", e), self.allreduce_async(d, {.name = "b"})}) {
        if (!one.is_done()) throw std::runtime_error("it was submitted");
        refused.push_back(one.wait());
      }
      pending.push_back(self.allreduce_async(c, {.name = "c"}));  // refused calls have not reserved the name
      pending.push_back(self.allreduce_async(d, {.name = "d"}));
    }
    must(self.barrier());
    if (self.rank() == 1) {
      pending.push_back(pair("a", a, "b", b));
      pending.push_back(self.allreduce_async(c, {.name = "c"}));
      pending.push_back(self.allreduce_async(d, {.name = "d"}));
    }
    for (const Pending& one : pending) must(one.wait());
    return std::pair(refused, std::vector{a[0], b[0], c[0], d[0]});
  });
  for (const auto& [refused, sums] : seen) CHECK(sums == std::vector{2, 2, 2, 2});
  REQUIRE(seen[0].first.size() == 3);
  for (const Status& status : seen[0].first) CHECK(status.code() == Code::duplicate_name);
  CHECK_THAT(seen[0].first[0].message(), Contains("'b': a tensor of this name is still pending"));
}

TEST_CASE("with DUPLICATE_NAMES=error who waits, and a callback, submit the same name again at once") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.duplicate_names = DuplicateNames::error;
  constexpr int kTimes = 200;
  const auto seen = run_on_ranks(backend, 2, config, [&](Rank& self) {
    struct Chain {
      Rank& self;
      std::vector<int> data = {1};
      int calls = 0;
      std::binary_semaphore over{0};
      Status wrong;
      void next() {
        const Pending pending =
            self.allreduce_async(data, {.name = "link", .callback = [this](Operation& done) {
                                          wrong = done.status();
                                          if (!wrong.is_ok() || ++calls == kTimes) return over.release();
                                          next();
                                        }});
        if (!pending.is_done() || pending.was_submitted()) return;
        wrong = pending.wait();
        over.release();
      }
    } chain{self};
    chain.next();
    std::vector<int> x = {0};
    for (int i = 0; i < kTimes; ++i) {
      const Pending pending = self.allreduce_async(x, {.name = "same"});
      while (i % 2 == 0 && !pending.is_done()) std::this_thread::yield();
      must(pending.wait());
    }
    chain.over.acquire();
    must(chain.wrong);
    return chain.calls;
  });
  CHECK(seen == std::vector{kTimes, kTimes});
}

TEST_CASE(
    "barriers in flight and a tensor named barrier do not meet, also where duplicate names are errors") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.duplicate_names = GENERATE(DuplicateNames::queue, DuplicateNames::error);
  const auto seen = run_on_ranks(backend, 2, config, [&](Rank& self) {
    std::vector<int> tensor = {self.rank() + 1}, group_named = {10 * (self.rank() + 1)};
    std::vector<std::vector<int>> members = {{1}, {2}};
    std::vector<Pending> pending;
    const auto submit = [&](int what) {
      if (what < 2) pending.push_back(self.barrier_async());
      if (what == 2) pending.push_back(self.allreduce_async(tensor, {.name = "barrier"}));
      if (what == 3) pending.push_back(self.allreduce_async(group_named, {.name = "g"}));
      if (what < 4) return;
      const auto i = static_cast<std::size_t>(what - 4);
      pending.push_back(
          self.allreduce_async(members[i], {.name = i ? "b" : "a", .group = "g", .group_size = 2}));
    };
    for (int i = 0; i < 6; ++i) submit(self.rank() == 0 ? i : 5 - i);
    for (const Pending& one : pending) must(one.wait());
    return std::vector{tensor[0], group_named[0], members[0][0], members[1][0]};
  });
  for (const auto& one : seen) CHECK(one == std::vector{3, 30, 2, 4});
}

TEST_CASE("members of a group that come one by one, in another order on each rank, run together") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<std::vector<float>> data = {{1}, {2, 2}, {3, 3, 3}};
    std::vector<Pending> pending(3);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t which = self.rank() == 0 ? i : 2 - i;
      const bool done_early = i > 0 && pending[self.rank() == 0 ? 0 : 2].is_done();
      if (done_early) throw std::runtime_error("a member completed before its group was whole");
      pending[which] = self.allreduce_async(
          data[which], {.name = "m" + std::to_string(which), .group = "g", .group_size = 3});
    }
    for (const Pending& one : pending) must(one.wait());
    return data;
  });
  for (const auto& one : seen) CHECK(one == std::vector<std::vector<float>>{{2}, {4, 4}, {6, 6, 6}});
}

TEST_CASE("several threads of a rank submit at once") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<std::vector<int>> data(kThreads * kEach, std::vector<int>(3, self.rank() + 1));
    std::vector<Status> wrong(kThreads);
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (int i = 0; i < kEach; ++i) {
            auto& mine = data[static_cast<std::size_t>(t * kEach + i)];
            const Status status = self.allreduce(mine, {.name = std::to_string(t) + "." + std::to_string(i)});
            if (!status.is_ok()) wrong[static_cast<std::size_t>(t)] = status;
          }
        });
      }
    }
    for (const Status& status : wrong) must(status);
    return data;
  });
  for (const auto& of_rank : seen) {
    CHECK(of_rank == std::vector(kThreads * kEach, std::vector<int>(3, 3)));
  }
}

TEST_CASE("a callback may submit, runs once for each operation, and sees it complete") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Chain {
    Rank& self;
    std::vector<int> data = {0};
    std::atomic<int> calls{0};
    std::binary_semaphore over{0};
    Status wrong;

    void next() {
      const Pending pending =
          self.allreduce_async(data, {.name = "link", .callback = [this](Operation& done) {
                                        ++calls;
                                        wrong = done.status();
                                        if (!wrong.is_ok() || calls == 10) return over.release();
                                        data = {1};
                                        next();
                                      }});
    }
  };
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    Chain chain{self};
    chain.next();
    chain.over.acquire();
    must(chain.wrong);
    return std::pair(chain.calls.load(), chain.data);
  });
  for (const auto& [calls, data] : seen) {
    CHECK(calls == 10);
    CHECK(data == std::vector{2});
  }
}

}  // namespace dabke::test

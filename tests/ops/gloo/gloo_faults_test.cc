// How gloo runs end after a fault, and what they leave behind.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "tests/child_process.h"
#include "tests/ops/different_batches.h"
#include "tests/ops/gloo/rank_threads.h"
#include "tests/patience.h"
#include "tests/temporary_directory.h"
#include "tests/thread_count.h"

namespace dabke::test {
namespace {

using std::chrono::milliseconds;
using test::GlooRank;
using test::on_one_host;
using test::run_on_ranks;

double ms_since(TimePoint start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Far above the time of an idle machine (a few milliseconds), and far below any time
// limit that could end a wait instead.
constexpr double kPromptMs = std::chrono::duration<double, std::milli>(test::kPatience).count();

/// Memory for one collective of a kind over `size` ranks, `elements` floats a rank.
struct Work {
  Work(CollectiveKind kind, int size, std::size_t elements = 1000)
      : input(elements * static_cast<std::size_t>(size), 1.0f),
        output(input.size()),
        counts(static_cast<std::size_t>(size), static_cast<std::int64_t>(elements)) {
    batch.kind = kind;
    if (kind == CollectiveKind::barrier) return;
    const bool is_part = kind == CollectiveKind::allgather;
    const auto count = static_cast<std::int64_t>(is_part ? elements : input.size());
    batch.entries.push_back({input.data(), output.data(), count, counts, counts});
  }
  std::vector<float> input, output;
  std::vector<std::int64_t> counts;
  Batch batch;
};

constexpr CollectiveKind kKinds[] = {CollectiveKind::allreduce,     CollectiveKind::allgather,
                                     CollectiveKind::broadcast,     CollectiveKind::alltoall,
                                     CollectiveKind::reducescatter, CollectiveKind::barrier};

/// The open descriptors of the process.
std::vector<int> open_fds() {
  std::vector<int> fds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (::fcntl(fd, F_GETFD) != -1) fds.push_back(fd);
  }
  std::erase_if(fds, [](int fd) { return ::fcntl(fd, F_GETFD) == -1; });  // that of the iterator
  return fds;
}
/// Counts how often threads of the process have slept and woken.
std::int64_t wakeups() {
  std::int64_t total = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      if (std::int64_t count = 0; word == "voluntary_ctxt_switches:" && status >> count) total += count;
    }
  }
  return total;
}

struct Ended {
  Status status;
  double ms = 0;
};

}  // namespace

TEST_CASE("abort ends a run that waits for a peer, with its cause, promptly") {
  const auto kind = GENERATE(from_range(std::vector(std::begin(kKinds), std::end(kKinds))));
  const std::size_t elements = GENERATE(1000u, 300'000u);
  if (elements > 1000 && kind == CollectiveKind::barrier) return;
  std::promise<void> done;
  const auto released = done.get_future().share();
  const auto ended = run_on_ranks(3, [&, kind, elements](GlooRank& self) {
    Work first(kind, 3, elements);
    Ended result{self.run(first.batch), 0};  // connects
    if (!result.status.is_ok()) return result;
    if (self.world.rank == 2) {  // never starts the second run
      released.wait_for(std::chrono::seconds(60));
      return result;
    }
    TimePoint start;
    std::jthread aborter([&] {
      std::this_thread::sleep_for(milliseconds(30));
      start = Clock::now();
      self.abort(Status(Code::peer_lost, "rank 2 is gone"));
    });
    // The root of a broadcast may end before any rank has received, so it repeats until it fails.
    for (int i = 0; i < 10000 && result.status.is_ok(); ++i) {
      Work again(kind, 3, elements);
      result.status = self.run(again.batch);
    }
    aborter.join();
    result.ms = ms_since(start);
    if (self.world.rank == 0) done.set_value();
    Work later(kind, 3);
    const Status after = self.run(later.batch);
    if (after.message() != "rank 2 is gone")
      result.status = Status(Code::internal, "later: " + after.message());
    return result;
  });
  INFO(name_of(kind) << " of " << elements);
  int with_cause = 0;
  for (const std::size_t rank : {0u, 1u}) {
    const Status& status = ended[rank].status;
    with_cause += status.message() == "rank 2 is gone";
    // A rank that is aborted second may first see the connections of the other one break.
    CHECK((status.code() == Code::peer_lost || status.code() == Code::transport));
    CHECK(ended[rank].ms < kPromptMs);
  }
  CHECK(with_cause >= 1);
}

TEST_CASE("abort ends the wait for a rank that never connects") {
  GlooRank self(0, on_one_host(2), store::make_memory_store());
  std::jthread aborter([&] {
    std::this_thread::sleep_for(milliseconds(50));
    self.abort(Status(Code::aborted, "enough"));
  });
  Work work(CollectiveKind::allreduce, 2);
  const TimePoint start = Clock::now();
  const Status status = self.run(work.batch);
  CHECK(status.code() == Code::aborted);
  CHECK(status.message() == "enough");
  CHECK(ms_since(start) < kPromptMs);
}

TEST_CASE("abort ends the connecting to a rank that has left its address and sleeps") {
  // Publishes its own address, but reads no address before it is woken.
  class Sleepy final : public store::Store {
   public:
    Sleepy(std::shared_ptr<store::Store> store, std::shared_future<void> woken)
        : store_(std::move(store)), woken_(std::move(woken)) {}
    Status set(const std::string& key, std::string_view value) override { return store_->set(key, value); }
    Result<std::string> get(const std::string& key, TimePoint deadline) override {
      woken_.wait();
      return store_->get(key, deadline);
    }
    Result<std::uint64_t> increment(const std::string& key) override { return store_->increment(key); }
    std::string describe() const override { return store_->describe(); }

   private:
    std::shared_ptr<store::Store> store_;
    std::shared_future<void> woken_;
  };
  // Gloo decides by address which of two ranks listens. In four rounds, both cases happen.
  for (int round = 0; round < 4; ++round) {
    std::promise<void> wake;
    const auto store = store::make_memory_store();
    GlooRank awake(0, on_one_host(2), store);
    GlooRank asleep(1, on_one_host(2), std::make_shared<Sleepy>(store, wake.get_future().share()));
    auto sleeper = std::async(std::launch::async, [&] {
      Work work(CollectiveKind::allreduce, 2);
      return asleep.run(work.batch);
    });
    std::jthread aborter([&] {
      std::this_thread::sleep_for(milliseconds(60));
      awake.abort(Status(Code::aborted, "enough"));
    });
    Work work(CollectiveKind::allreduce, 2);
    const TimePoint start = Clock::now();
    const Status status = awake.run(work.batch);
    CHECK(status.message() == "enough");
    CHECK(ms_since(start) < kPromptMs);
    asleep.abort(Status(Code::aborted, "enough"));
    wake.set_value();
    CHECK(sleeper.get().message() == "enough");
  }
}

TEST_CASE("a rank that never comes is an error after the start timeout, which names its key") {
  Config config;
  config.start_timeout = 0.2;
  GlooRank self(0, on_one_host(2), store::make_memory_store(), config);
  Work work(CollectiveKind::broadcast, 2);
  const Status status = self.run(work.batch);
  CHECK(status.code() == Code::timeout);
  CHECK(status.message().find("gloo broadcast of 1 tensor (order 1), rank 0 of 2 in process set 0") !=
        std::string::npos);
  CHECK(status.message().find("DABKE_START_TIMEOUT_SECONDS") != std::string::npos);
  CHECK(status.message().find("broadcast/1") != std::string::npos);
}

TEST_CASE("a run ends at its deadline, and the ranks that wait for it end too") {
  const bool by_config = GENERATE(false, true);
  const auto ended = test::with_enough_time(
      3,
      [&](double seconds) {
        Config config;
        config.gloo_timeout = by_config ? seconds : 0;  // the limit of each run, even of the first
        std::promise<void> rank_0_ended;
        return run_on_ranks(
            3,
            [=, &rank_0_ended](GlooRank& self) {
              Work first(CollectiveKind::allreduce, 3);
              Ended result{self.run(first.batch), 0};
              if (self.world.rank == 2) {  // never starts the run, and stays until rank 0 has waited
                rank_0_ended.get_future().wait();
                return result;
              }
              if (result.status.is_ok()) {
                Work late(CollectiveKind::allreduce, 3);
                if (!by_config && self.world.rank == 0)
                  late.batch.deadline = Clock::now() + milliseconds(200);
                result.status = self.run(late.batch);
              }
              if (self.world.rank == 0) rank_0_ended.set_value();
              return result;
            },
            config);
      },
      [](const auto& seen) { return seen[2].status.is_ok(); });
  CHECK(ended[2].status.is_ok());
  // With the setting, rank 1 may reach its limit first. Rank 0 then sees its connections break.
  const Status& status = ended[by_config && ended[0].status.code() == Code::transport ? 1 : 0].status;
  CHECK(status.code() == Code::timeout);
  CHECK(status.message().find("not finished within its limit of ") != std::string::npos);
  CHECK(status.message().find("DABKE_GLOO_TIMEOUT_SECONDS") != std::string::npos);
  CHECK_FALSE(ended[0].status.is_ok());
  CHECK_FALSE(ended[1].status.is_ok());
}

TEST_CASE("when one rank's run fails the others' runs fail, and say what Gloo said") {
  const auto ended = run_on_ranks(3, [](GlooRank& self) {
    Work first(CollectiveKind::allreduce, 3);
    Status status = self.run(first.batch);
    if (self.world.rank == 1 || !status.is_ok()) return status;  // leaves
    Work second(CollectiveKind::allreduce, 3);
    status = self.run(second.batch);
    Work third(CollectiveKind::broadcast, 3);
    return self.run(third.batch);  // the set has failed, so no new connection is tried
  });
  CHECK(ended[1].is_ok());
  for (const std::size_t rank : {0u, 2u}) {
    CHECK(ended[rank].code() == Code::transport);
    CHECK(ended[rank].message().find("gloo allreduce of 1 tensor") != std::string::npos);
    CHECK(ended[rank].message().find("onnection") != std::string::npos);
  }
}

namespace {

/// Runs rank 1 in a process of its own. It takes part in two allreduces and then sends itself `signal`.
int be_the_peer(const std::string& directory, std::size_t elements, int signal) {
  GlooRank self(1, on_one_host(2), store::open_file_store(directory).take());
  for (int i = 0; i < 2; ++i) {
    Work work(CollectiveKind::allreduce, 2, elements);
    (void)self.run(work.batch);
  }
  ::kill(::getpid(), signal);
  return 0;
}

}  // namespace

TEST_CASE("a killed peer ends a run by itself, and abort ends one whose peer was stopped") {
  const int signal = GENERATE(SIGSTOP, SIGKILL);
  const std::size_t elements = GENERATE(1000u, 300'000u);
  const test::TemporaryDirectory directory;
  // Forked while this process has no other threads.
  test::ChildProcess peer([&] { return be_the_peer(directory.path(), elements, signal); });
  {
    GlooRank self(0, on_one_host(2), store::open_file_store(directory.path()).take());
    for (int i = 0; i < 2; ++i) {
      Work work(CollectiveKind::allreduce, 2, elements);
      CHECK(self.run(work.batch).is_ok());
    }
    peer.wait_until_stopped();
    TimePoint start = Clock::now();
    std::jthread aborter([&] {
      if (signal == SIGKILL) return;
      std::this_thread::sleep_for(milliseconds(50));
      start = Clock::now();
      self.abort(Status(Code::peer_lost, "rank 1 is stopped"));
    });
    Work work(CollectiveKind::allreduce, 2, elements);
    const Status status = self.run(work.batch);
    aborter.join();
    CHECK(ms_since(start) < kPromptMs);
    CHECK(status.code() == (signal == SIGKILL ? Code::transport : Code::peer_lost));
  }
}

TEST_CASE("ranks that bring different batches end with an error that names both, and mix no data") {
  const int ranks = GENERATE(2, 3);
  for (const test::Difference& difference : test::differences()) {
    test::DifferentBatches different(ranks, difference);
    const auto seen = run_on_ranks(ranks, [&](GlooRank& self) { return different.run(self); });
    CAPTURE(ranks, difference.of_last.tensors, difference.of_last.elements, difference.of_others.elements);
    CHECK(different.wrong_with(seen) == "");
  }
}

TEST_CASE("fifty rounds of making and destroying leak no descriptor and no thread") {
  const auto round = [] {
    return run_on_ranks(3, [](GlooRank& self) {
      Work sum(CollectiveKind::allreduce, 3), scatter(CollectiveKind::reducescatter, 3);
      return self.run(sum.batch).is_ok() && self.run(scatter.batch).is_ok();
    });
  };
  CHECK(round() == std::vector(3, true));
  const auto fds = open_fds().size();
  const auto threads = test::thread_count();
  int good = 0;
  for (int i = 0; i < 50; ++i) good += round() == std::vector(3, true);
  CHECK(good == 50);
  CHECK(open_fds().size() == fds);
  CHECK(test::threads_fall_to(threads));
}

TEST_CASE("every descriptor of a connected backend is closed by exec, and by a forked child") {
  const auto before = open_fds();
  std::vector<int> kept;
  const auto store = store::make_memory_store();
  std::vector<std::unique_ptr<GlooRank>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(std::make_unique<GlooRank>(rank, on_one_host(3), store));
  std::vector<std::future<bool>> runs;
  for (auto& rank : ranks) {
    runs.push_back(std::async(std::launch::async, [&rank] {
      Work sum(CollectiveKind::allreduce, 3), gather(CollectiveKind::allgather, 3);
      return rank->run(sum.batch).is_ok() && rank->run(gather.batch).is_ok();
    }));
  }
  for (auto& run : runs) CHECK(run.get());
  const auto after = open_fds();
  CHECK(after.size() >
        before.size() + 12);  // six ends of three connections, for two contexts, and those of the devices
  for (const int fd : after) {
    if (std::ranges::find(before, fd) == before.end() && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
      kept.push_back(fd);
  }
  CHECK(kept.empty());
  const int state = test::status_in_child([&] {
    for (auto& rank : ranks) rank->fork_guard.close_all_in_child();
    int open = 0;
    for (const int fd : after) {
      if (std::ranges::find(before, fd) == before.end() && ::fcntl(fd, F_GETFD) != -1) ++open;
    }
    return open;
  });
  CHECK(state == 0);
}

TEST_CASE("an idle backend sleeps without waking, and runs again") {
  std::vector<std::unique_ptr<GlooRank>> ranks;
  const auto store = store::make_memory_store();
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::make_unique<GlooRank>(rank, on_one_host(2), store));
  const auto allreduce = [&] {
    auto other = std::async(std::launch::async, [&] {
      Work work(CollectiveKind::allreduce, 2);
      return ranks[1]->run(work.batch);
    });
    Work work(CollectiveKind::allreduce, 2);
    const bool is_good = ranks[0]->run(work.batch).is_ok();
    return is_good && other.get().is_ok() && work.output[0] == 2;
  };
  CHECK(allreduce());
  const auto count = [] {
    const auto start = wakeups();
    std::this_thread::sleep_for(milliseconds(500));
    return wakeups() - start;
  };
  // Gloo's two threads wake a hundred times a second each. idle() must end that.
  std::int64_t busy = 0;
  for (int look = 0; look < 40 && busy <= 50; ++look) busy += count();
  CHECK(busy > 50);
  for (auto& rank : ranks) rank->backend->idle();
  auto idle = count();
  for (int look = 0; look < 10 && idle >= 20; ++look) idle = count();  // other things wake threads, too
  CHECK(idle < 20);
  CHECK(allreduce());
  for (auto& rank : ranks) rank->backend->idle();
  for (auto& rank : ranks) rank->release(kWorldSet);
  for (auto& rank : ranks) rank->backend->idle();  // there is no connection to keep
  CHECK(allreduce());
  ranks[0]->backend->idle();
  Work late(CollectiveKind::allreduce, 2);
  std::jthread aborter([&] {
    std::this_thread::sleep_for(milliseconds(20));
    ranks[0]->abort(Status(Code::aborted, "enough"));
  });
  CHECK(ranks[0]->run(late.batch).message() == "enough");
}

TEST_CASE("an idle backend can be destroyed while it has connections") {
  std::vector<std::unique_ptr<GlooRank>> ranks;
  const auto store = store::make_memory_store();
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::make_unique<GlooRank>(rank, on_one_host(2), store));
  auto other = std::async(std::launch::async, [&] {
    Work work(CollectiveKind::allreduce, 2);
    return ranks[1]->run(work.batch);
  });
  Work work(CollectiveKind::allreduce, 2);
  CHECK(ranks[0]->run(work.batch).is_ok());
  CHECK(other.get().is_ok());
  for (auto& rank : ranks) rank->backend->idle();
  auto destroyed = std::async(std::launch::async, [&] { ranks.clear(); });
  // Without this exit, the test would hang for ever: such a wait of Gloo cannot be ended.
  if (destroyed.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
    std::fputs("an idle backend cannot be destroyed\n", stderr);
    std::_Exit(1);
  }
}

}  // namespace dabke::test

// The buffers in which tensors are fused, on the fake NCCL: memory that is registered
// with NCCL on all ranks, or on none.
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/fake_cuda/doubles.h"
#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

constexpr int kRanks = 3;
constexpr int kCalls = 40;

/// The change of the figures since the beginning.
struct Change {
  NcclFigures before = nccl_figures();
  NcclFigures now() const {
    const NcclFigures after = nccl_figures();
    return {after.buffers - before.buffers, after.known - before.known, after.runs - before.runs,
            after.beside - before.beside};
  }
};

/// Runs groups of tensors, each larger than the group before. The next group is under way while the last one
/// runs. Returns the number of wrong sums.
int wrong_sums(Rank& self) {
  std::vector<std::vector<float>> tensors;
  std::vector<Pending> pending;
  tensors.reserve(3 * kCalls);
  for (int call = 0; call < kCalls; ++call) {
    std::vector<Argument> group;
    for (int i = 0; i < 3; ++i) {
      const auto count = static_cast<std::size_t>(call * call * 10 + i + 1);
      group.push_back({view_of(tensors.emplace_back(count, static_cast<float>(call + i + self.rank())))});
    }
    pending.push_back(
        self.start(CollectiveKind::allreduce, std::move(group), {.name = fmt::format("{}", call)}));
    // The first buffer is small, so it has to grow, however many tensors are fused later.
    if (call == 0) must(pending.back().wait());
  }
  for (const Pending& one : pending) must(one.wait());
  int wrong = 0;
  for (int call = 0; call < kCalls; ++call) {
    for (int i = 0; i < 3; ++i) {
      const auto& tensor = tensors[static_cast<std::size_t>(3 * call + i)];
      const auto sum = static_cast<float>(kRanks * (call + i) + kRanks * (kRanks - 1) / 2);
      wrong += tensor == std::vector<float>(tensor.size(), sum) ? 0 : 1;
    }
  }
  return wrong;
}

const std::vector<int> kNoneWrong(kRanks, 0);

}  // namespace

TEST_CASE(
    "what is packed lies in memory that NCCL knows, which grows beside no collective, and is given back") {
  must(load_doubles());
  const Planned delays("", 11);
  const Change change;
  {
    Job job(setup_named("nccl"), kRanks);
    CHECK(job.run(wrong_sums) == kNoneWrong);
    CHECK(change.now().runs >= kRanks);
    CHECK(change.now().buffers == kRanks);  // one for each rank's device, however often it has grown
    CHECK(change.now().known == kRanks);
    CHECK(job.run(wrong_sums) == kNoneWrong);
    CHECK(change.now().buffers == kRanks);
  }
  CHECK(change.now().buffers == 0);
  CHECK(change.now().known == 0);
  CHECK(change.now().beside == 0);
}

TEST_CASE("where one rank has no such memory all ranks do without, and nothing fails") {
  must(load_doubles());
  const std::string plan = GENERATE("ncclMemAlloc 1 {} 1", "ncclCommRegister 2 {} 3");
  // The first registration fails, or those that follow as the memory grows.
  const int nth = GENERATE(1, 2);
  CAPTURE(plan, nth);
  std::string rules;
  for (int i = nth; i < 100; ++i) rules += fmt::format(fmt::runtime(plan), i) + ";";
  const Planned faults(rules, 12);
  const Change change;
  {
    Job job(setup_named("nccl"), kRanks);
    CHECK(job.run(wrong_sums) == kNoneWrong);
    CHECK(change.now().buffers == 0);
    CHECK(change.now().known == 0);
    if (nth == 1) CHECK(change.now().runs == 0);
  }
  CHECK(change.now().beside == 0);
}

TEST_CASE("an abort leaves no memory of NCCL's behind, and a job after it has its own") {
  must(load_doubles());
  const Change change;
  {
    Job job(setup_named("nccl"), kRanks);
    CHECK(job.run(wrong_sums) == kNoneWrong);
    const Planned fault("ncclAllReduce 1 1 hang");
    const auto said = job.run([](Rank& self) {
      std::vector<float> ones(100, 1);
      std::vector<float> twos(100, 2);
      const Pending pending = self.start(CollectiveKind::allreduce, {{view_of(ones)}, {view_of(twos)}}, {});
      if (self.rank() == 0) self.runtime().abort("the test ends it");
      return pending.wait().message();
    });
    for (const std::string& text : said) CHECK_THAT(text, Catch::Contains("the test ends it"));
  }
  CHECK(run_on_ranks(setup_named("nccl"), kRanks, wrong_sums) == kNoneWrong);
  // A communicator is aborted on a thread of its own, which may end later.
  const TimePoint until = deadline_after(60);
  while (change.now().buffers != 0 && Clock::now() < until) std::this_thread::yield();
  CHECK(change.now().buffers == 0);
  CHECK(change.now().known == 0);
}

}  // namespace dabke::test

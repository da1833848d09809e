// Jobs on the doubles with one fault each, chosen by a seed. Every handle ends soon and
// names the cause, and a later job runs.
//
// DABKE_TEST_FAULTS chooses the seeds: "200" means 1 to 200, "17-17" only
// 17. By default, a run takes a slice.
#include <algorithm>
#include <cstdlib>
#include <random>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/fake_cuda/doubles.h"
#include "tests/in_process/double_device.h"
#include "tests/in_process/job.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using Catch::Contains;

constexpr int kCalls = 18;
constexpr double kEndsWithin = test::kSanitized ? 120 : 60;  // 5 s, and the delays of a busy machine

struct Fault {
  std::string plan;
  std::vector<std::string> causes;  // an error has one of them
  bool must_be_ended = false;       // only an abort ends the job
  int lost = -1;                    // this rank is lost
};

template <class Random, std::size_t count>
const char* one_of(Random& random, const char* const (&names)[count]) {
  return names[random() % count];
}

/// One fault for each seed, somewhere in the job.
Fault fault_of(unsigned seed, int ranks) {
  std::mt19937 random(seed);
  const auto device = static_cast<int>(random() % static_cast<unsigned>(ranks));
  const auto nth = 1 + random() % 5;
  const char* const of_driver[] = {"cuLaunchKernel",    "cuEventRecord",     "cuEventQuery",
                                   "cuEventCreate",     "cuMemAlloc",        "cuMemHostAlloc",
                                   "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamCreateWithPriority"};
  const char* const of_nccl[] = {
      "ncclAllReduce", "ncclBroadcast", "ncclAllGather",  "ncclReduceScatter", "ncclSend",
      "ncclRecv",      "ncclReduce",    "ncclGroupStart", "ncclGroupEnd",      "ncclCommGetAsyncError"};
  const char* const collectives[] = {"ncclAllReduce", "ncclBroadcast", "ncclAllGather", "ncclSend",
                                     "ncclReduce"};
  const std::string planned = "a fault that the plan names";
  switch (random() % 8) {
    case 0:
    case 1:
      return {fmt::format("{} {} {} 719", one_of(random, of_driver), device, nth),
              {"CUDA_ERROR_LAUNCH_FAILED (719)"}};
    case 2: {
      const bool is_host = random() % 2 == 0;
      return {fmt::format("{} {} {} 2", is_host ? "cuMemHostAlloc" : "cuMemAlloc", device, nth),
              {"memory for", "a fusion buffer", "host memory"}};
    }
    case 3: return {fmt::format("{} {} {} 3", one_of(random, of_nccl), device, nth), {planned}};
    case 4: return {fmt::format("{} {} {} async=6", one_of(random, collectives), device, nth), {planned}};
    case 5:
      return {
          fmt::format("{} {} {} hang", one_of(random, collectives), device, nth), {"the test ends it"}, true};
    case 6: return {"", {fmt::format("rank {} on node", device)}, false, device};
    default: {
      const char* const making[] = {"ncclCommInitRankConfig {} 1 2", "ncclCommInitRankConfig {} 1 async=2",
                                    "ncclCommInitRankConfig {} 1 hang", "ncclGetUniqueId 0 1 3"};
      const std::string made = fmt::format(fmt::runtime(one_of(random, making)), device);
      const bool hangs = made.ends_with("hang");
      return {made, {hangs ? "the test ends it" : planned}, hangs};
    }
  }
}

/// The tensors of a rank in a job. They live until every operation has ended.
struct Tensors {
  explicit Tensors(int rank) {
    for (int i = 0; i < kCalls; ++i) {
      const bool is_large = i % 4 == 3 || i == 6;
      floats.emplace_back(is_large ? 21000 : 12 + 12 * i, static_cast<float>(rank));
      shorts.emplace_back(12 + i, static_cast<std::int16_t>(rank));
    }
  }
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::int16_t>> shorts;  // copied to the host and back
};

Pending start(Rank& self, int i, Tensors& tensors) {
  auto& floats = tensors.floats[static_cast<std::size_t>(i)];
  const Call call{.name = fmt::format("tensor {}", i)};
  switch (i % 6) {
    case 0: return self.allreduce_async(floats, call);
    case 1: return self.broadcast_async(floats, call);
    case 2: return self.allgather_async(floats, call);
    case 3: return self.alltoall_async(floats, call);
    case 4: return self.reducescatter_async(floats, call);
    default: return self.allreduce_async(tensors.shorts[static_cast<std::size_t>(i)], call);
  }
}

struct Seen {
  bool all_ended = true;
  std::vector<std::string> errors;
};

Seen run_calls(Job& job, Rank& self, const Fault& fault) {
  Tensors tensors(self.rank());
  std::vector<Pending> pending;
  for (int i = 0; i < kCalls; ++i) {
    if (fault.lost == self.rank() && i == kCalls / 2) job.cut(self.rank());
    pending.push_back(start(self, i, tensors));
    // A program ends like this if a call is refused while other ranks wait for it.
    if (!pending.back().was_submitted()) self.runtime().abort(pending.back().wait().message());
  }
  if (fault.must_be_ended && self.rank() == 0) {
    // Operations that do not hang have ended by then, or end with the rest.
    for (const Pending& one : pending) {
      if (!one.wait_for(0.3)) break;
    }
    self.runtime().abort("the test ends it");
  }
  Seen seen;
  const TimePoint until = deadline_after(kEndsWithin);
  for (const Pending& one : pending) {
    const double left = std::chrono::duration<double>(until - Clock::now()).count();
    if (!one.wait_for(std::max(left, 0.0))) {
      seen.all_ended = false;
    } else if (const Status status = one.wait(); !status.is_ok() && fault.lost != self.rank()) {
      seen.errors.push_back(status.message());
    }
  }
  return seen;
}

std::pair<int, int> chosen_seeds() {
  const char* const wanted = std::getenv("DABKE_TEST_FAULTS");
  if (wanted == nullptr) return {1, 16};
  char* rest = nullptr;
  const auto first = static_cast<int>(std::strtol(wanted, &rest, 10));
  return *rest == '-' ? std::pair(first, std::atoi(rest + 1)) : std::pair(1, first);
}

bool says_one_of(const std::string& error, const std::vector<std::string>& causes) {
  return std::ranges::any_of(causes,
                             [&](const auto& cause) { return error.find(cause) != std::string::npos; });
}

/// The sums of a job of two ranks.
std::vector<std::vector<float>> sums_on(const Setup& setup) {
  return run_on_ranks(setup, 2, [](Rank& self) {
    std::vector<float> ones(3, 1);
    must(self.allreduce(ones));
    return ones;
  });
}

}  // namespace

TEST_CASE("whatever goes wrong once, in the driver or in NCCL, every handle ends, and says the first cause") {
  must(load_doubles());
  const auto [setup, ranks] =
      GENERATE(table<std::string, int>({{"nccl", 3}, {"nccl-hierarchical", 4}, {"nccl-host", 2}}));
  const auto [first, last] = chosen_seeds();
  int with_errors = 0;
  for (int seed = first; seed <= last; ++seed) {
    const Fault fault = fault_of(static_cast<unsigned>(seed), ranks);
    CAPTURE(setup, seed, fault.plan, fault.causes);
    const bool is_lost = fault.lost >= 0;
    plan_faults("", static_cast<unsigned>(seed));
    std::vector<Seen> seen;
    {
      Config config = quiet_config();
      config.num_nccl_streams = 1 + seed % 3;
      config.timeline_format = TimelineFormat::horovod;
      if (seed % 2 == 0) config.timeline = "/dev/null";  // recorded, but never read
      Job job(setup_named(setup), ranks, config);
      plan_faults(fault.plan, static_cast<unsigned>(seed));
      seen = job.run([&](Rank& self) { return run_calls(job, self, fault); });
    }
    plan_faults("");
    bool has_errors = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const Seen& of_rank = seen[static_cast<std::size_t>(rank)];
      CAPTURE(rank);
      CHECK(of_rank.all_ended);
      for (const std::string& error : of_rank.errors) {
        CAPTURE(error);
        CHECK(says_one_of(error, fault.causes));
      }
      has_errors = has_errors || !of_rank.errors.empty();
    }
    if (is_lost) CHECK(has_errors);
    with_errors += has_errors ? 1 : 0;
  }
  // Some faults are in calls that a job makes less often, or never.
  CHECK(with_errors * (setup == "nccl" ? 3 : 6) >= last - first + 1);
}

TEST_CASE("a job on devices runs in a process where another has failed") {
  must(load_doubles());
  const Setup& nccl = setup_named("nccl");
  {
    const Planned fault("ncclAllReduce 0 1 async=3");
    Job failing(nccl, 2);
    const auto said = failing.run([](Rank& self) {
      std::vector<float> ones(100, 1);
      return self.allreduce(ones).message();
    });
    for (const std::string& text : said) CHECK_THAT(text, Contains("a fault that the plan names"));
  }
  CHECK(sums_on(nccl) == std::vector(2, std::vector<float>(3, 2)));
}

TEST_CASE(
    "where a device does not come to its end though all was aborted, handles end, and it is not opened "
    "again") {
  must(load_doubles());
  Setup nccl = setup_named("nccl");
  nccl.first_device = 6;
  {
    const Planned fault("ncclAllReduce 7 1 never");
    const auto said = run_on_ranks(nccl, 2, [](Rank& self) {
      std::vector<float> ones(100, 1);
      const Pending pending = self.allreduce_async(ones);
      if (self.rank() == 1) {
        (void)pending.wait_for(0.3);
        self.runtime().abort("the test ends it");
      }
      return pending.wait_for(kEndsWithin) ? pending.wait().message() : "it has not ended";
    });
    for (const std::string& text : said) CHECK_THAT(text, Contains("the test ends it"));
  }
  Config config = quiet_config();
  config.module_path = MODULE_PATH;
  CHECK_THAT(open_double(config, 7).status().message(),
             Contains("cuda:7 has not finished a failed collective") && Contains("restart this process"));
  nccl.first_device = 5;  // other devices are not affected
  CHECK(sums_on(nccl) == std::vector(2, std::vector<float>(3, 2)));
}

}  // namespace dabke::test

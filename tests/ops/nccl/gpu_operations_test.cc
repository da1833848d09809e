// How tensors on devices move, by DABKE_GPU_OPERATIONS: the part of NCCL, and the part of the host's lane.
#include <catch2/catch.hpp>

#include "tests/fake_cuda/doubles.h"
#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Numbers = std::vector<float>;

// Every call of NCCL fails the first time.
const std::string kNoNccl =
    "ncclAllReduce * 1 3;ncclBroadcast * 1 3;ncclAllGather * 1 3;ncclReduceScatter * 1 3;ncclReduce * 1 3;"
    "ncclSend * 1 3;ncclRecv * 1 3;ncclGetUniqueId * 1 3";

/// Two hosts of two ranks, with the library's own backends on the host.
Setup two_hosts(const std::string& gpu_operations) {
  Setup setup = setup_named("nccl-" + gpu_operations);
  setup.cpu_operations = "auto";
  return setup;
}

/// This rank's numbers. Their sums do not depend on the order.
Numbers numbers_of(int rank, std::size_t count) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>((i % 97 + 1) * (rank + 1));
  return numbers;
}

/// The sum over four ranks.
Numbers sum_of_four(std::size_t count) {
  Numbers sum = numbers_of(0, count);
  for (float& number : sum) number *= 10;
  return sum;
}

}  // namespace

TEST_CASE("host: NCCL is never asked, and every collective is right") {
  must(load_doubles());
  const Planned fails(kNoNccl);
  struct Seen {
    Numbers sum, gathered, exchanged, scattered, sent;
  };
  const auto seen = run_on_ranks(two_hosts("host"), 4, [](Rank& self) {
    Seen out;
    out.sum = numbers_of(self.rank(), 50000);
    must(self.allreduce(out.sum));
    Numbers one = {static_cast<float>(self.rank())};
    out.gathered = must(self.allgather(one));
    Numbers four = numbers_of(self.rank(), 4);
    out.exchanged = must(self.alltoall(four));
    out.scattered = must(self.reducescatter(four));
    out.sent = numbers_of(self.rank(), 20);
    must(self.broadcast(out.sent, {.root = 3}));
    return out;
  });
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    CHECK((seen[rank].sum == sum_of_four(50000)));
    CHECK(seen[rank].gathered == Numbers{0, 1, 2, 3});
    const auto block = static_cast<float>(rank + 1);
    CHECK(seen[rank].exchanged == Numbers{block, 2 * block, 3 * block, 4 * block});
    CHECK(seen[rank].scattered == Numbers{10 * block});
    CHECK(seen[rank].sent == numbers_of(3, 20));
  }
}

TEST_CASE("hierarchical: between hosts NCCL is never asked, inside of them it is") {
  must(load_doubles());
  // One slice, and two. Slices of one tensor and of several, also if no tensor is cut at the end of a slice.
  const std::size_t length = GENERATE(1u, 3u, 50000u);
  CAPTURE(length);
  const auto sums_on = [&](const std::string& plan) {
    Job job(two_hosts("hierarchical"), 4);
    const Planned fails(plan);
    return job.run([&](Rank& self) {
      std::vector<Numbers> tensors = {numbers_of(self.rank(), length), numbers_of(self.rank(), 7),
                                      numbers_of(self.rank(), length + 1)};
      std::vector<Pending> pending;
      for (Numbers& one : tensors) pending.push_back(self.allreduce_async(one));
      Status status;
      for (const Pending& one : pending) {
        if (Status ended = one.wait(); status.is_ok()) status = std::move(ended);
      }
      return std::pair(status.message(), tensors);
    });
  };
  for (const auto& [error, sums] : sums_on("ncclAllReduce * 1 3;ncclSend * 1 3;ncclRecv * 1 3")) {
    CHECK(error == "");
    CHECK((sums == std::vector{sum_of_four(length), sum_of_four(7), sum_of_four(length + 1)}));
  }
  // A rank of each host reports what ended it: its own part, or that of another rank.
  for (const auto& [error, sums] : sums_on("ncclReduceScatter * 1 3;ncclReduce * 1 3")) {
    CHECK_THAT(error, Contains("nccl reducescatter of") && Contains("of 2 in process set 0 inside a host") &&
                          Contains("a fault that the plan names"));
  }
}

TEST_CASE("nccl: a compressed allreduce is NCCL's, in 16 bits between hosts and as it is within one") {
  Setup setup = setup_named("nccl");
  setup.hosts = GENERATE(1, 2);
  const bool is_compressed = setup.hosts == 2;
  CAPTURE(setup.hosts);
  must(load_doubles());
  const Planned no_staging("cuMemHostAlloc * 1 2");
  struct Seen {
    Numbers alone, average, fused[3];
    std::vector<double> wide;
  };
  const auto seen = run_on_ranks(setup, 2, [](Rank& self) {
    Seen out;
    const Call bfloat16{.compression = Compression::bfloat16};
    out.alone.assign(70000, 1.0f + 0x1p-9f);  // bfloat16 cannot hold it
    must(self.allreduce(out.alone, bfloat16));
    out.average.assign(5, 1.0f + 0x1p-12f);  // float16 cannot hold it
    must(self.allreduce(
        out.average,
        {.op = ReduceOp::average, .prescale = 3, .postscale = 0.5, .compression = Compression::float16}));
    std::vector<Pending> pending;
    for (Numbers& numbers : out.fused) {
      numbers.assign(77, 1.0f + 0x1p-9f);
      pending.push_back(self.allreduce_async(numbers, bfloat16));
    }
    for (const Pending& one : pending) must(one.wait());
    out.wide.assign(3, 1.0 + 0x1p-30);
    must(self.allreduce(out.wide, bfloat16));  // float64 is not compressed
    return out;
  });
  const float one = is_compressed ? 1 : 1 + 0x1p-9f;
  for (const Seen& of_rank : seen) {
    CHECK((of_rank.alone == Numbers(70000, 2 * one)));
    CHECK((of_rank.average == Numbers(5, is_compressed ? 1.5f : 1.5f * (1 + 0x1p-12f))));
    for (const Numbers& numbers : of_rank.fused) CHECK((numbers == Numbers(77, 2 * one)));
    CHECK((of_rank.wide == std::vector<double>(3, 2 + 0x1p-29)));
  }
}

TEST_CASE("hierarchical: averages of integers, factors and joined ranks are as elsewhere") {
  struct Seen {
    std::vector<std::int8_t> average;
    std::vector<std::int32_t> scaled;
    Numbers compressed, joined;
  };
  constexpr std::size_t kLength = 70000;  // two slices, if copied as int32
  const auto seen = run_on_ranks(two_hosts("hierarchical"), 4, [](Rank& self) {
    Seen out;
    out.average.assign(kLength, static_cast<std::int8_t>(120 + self.rank()));  // the sum exceeds int8
    must(self.allreduce(out.average, {.name = "average", .op = ReduceOp::average}));
    out.scaled.assign(kLength, self.rank() + 1);
    must(self.allreduce(out.scaled, {.name = "scaled", .prescale = 2, .postscale = 0.5}));
    out.compressed.assign(kLength, 1.0f + 0x1p-9f);  // bfloat16 cannot hold it
    must(self.allreduce(out.compressed, {.name = "compressed", .compression = Compression::bfloat16}));
    out.joined.assign(kLength, static_cast<float>(self.rank()));
    if (self.rank() != 2) must(self.allreduce(out.joined, {.name = "joined", .op = ReduceOp::average}));
    (void)must(self.join());
    return out;
  });
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    CHECK((seen[rank].average == std::vector<std::int8_t>(kLength, 121)));
    CHECK((seen[rank].scaled == std::vector<std::int32_t>(kLength, 10)));
    CHECK((seen[rank].compressed == Numbers(kLength, 4)));
    CHECK((seen[rank].joined == Numbers(kLength, rank == 2 ? 2.0f : 4.0f / 3)));
  }
}

TEST_CASE("hierarchical: a root on any rank of any host is heard on all") {
  const std::size_t length = GENERATE(1u, 50000u);
  const auto seen = run_on_ranks(two_hosts("hierarchical"), 4, [&](Rank& self) {
    std::vector<Numbers> heard;
    for (int root = 0; root < 4; ++root) {
      heard.push_back(numbers_of(self.rank(), length));
      must(self.broadcast(heard.back(), {.root = root}));
    }
    return heard;
  });
  for (const auto& heard : seen) {
    for (int root = 0; root < 4; ++root)
      CHECK((heard[static_cast<std::size_t>(root)] == numbers_of(root, length)));
  }
}

TEST_CASE("hierarchical: a process set on one host is NCCL's, and one with a rank a host is the host's") {
  must(load_doubles());
  const bool is_inside = GENERATE(true, false);
  Job job(two_hosts("hierarchical"), 4);
  const auto sets = job.run([&](Rank& self) {
    return self.add_process_set(is_inside ? std::vector{0, 1} : std::vector{0, 2});
  });
  const Planned fails(is_inside ? "ncclAllReduce * 1 3" : kNoNccl);
  const auto seen = job.run([&](Rank& self) {
    Numbers ones(100, 1);
    const bool is_member = self.rank() == 0 || self.rank() == (is_inside ? 1 : 2);
    const Status status = is_member ? self.allreduce(ones, {.set = sets[0]}) : Status();
    return std::tuple(is_member, status.message(), ones[0]);
  });
  for (const auto& [is_member, error, sum] : seen) {
    if (!is_member) continue;
    if (is_inside) CHECK_THAT(error, Contains("nccl allreduce of"));
    if (!is_inside) CHECK((error.empty() && sum == 2));
  }
}

TEST_CASE("hosts of unequal numbers of ranks, and sets that come and go, each have their sums") {
  Setup setup = setup_named("nccl-hierarchical");  // of the five ranks, three and two
  const auto wrong = run_on_ranks(setup, 5, [](Rank& self) {
    int bad = 0;
    for (int round = 0; round < 5; ++round) {
      const ProcessSetId set = self.add_process_set({1, 2, 3});  // two on the first host, one on the other
      Numbers all(40000, 1), some(40000, 1);
      const auto of_all = self.allreduce_async(all, {.name = "all"});
      if (self.rank() >= 1 && self.rank() <= 3) must(self.allreduce(some, {.name = "some", .set = set}));
      must(of_all.wait());
      must(self.remove_process_set(set));
      bad += all == Numbers(40000, 5) ? 0 : 1;
      bad += some == Numbers(40000, self.rank() >= 1 && self.rank() <= 3 ? 3.0f : 1.0f) ? 0 : 1;
    }
    return bad;
  });
  CHECK(wrong == std::vector(5, 0));
}

TEST_CASE("ranks that were told different GPU operations are told so, and the job goes on") {
  Setup setup = setup_named("nccl");
  Job job(setup, 2, [](int rank) {
    Config config = quiet_config();
    config.gpu_operations = rank == 0 ? "nccl" : "gloo";
    return config;
  });
  const auto seen = job.run([](Rank& self) {
    Numbers x(3, 1), y(3, 1);
    const Status status = self.allreduce(x, {.name = "x"});
    must(self.allreduce(y, {.name = "y", .on_device = false}));
    return std::pair(status, y);
  });
  for (const auto& [status, y] : seen) {
    CHECK(status.code() == Code::mismatch);
    CHECK_THAT(status.message(), Contains("Mismatched DABKE_GPU_OPERATIONS for 'x'") &&
                                     Contains("of float32 [3] on cuda, device route host"));
    CHECK(y == Numbers(3, 2));
  }
}

}  // namespace dabke::test

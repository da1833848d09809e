// Outputs for which one rank has no memory: the operation fails on all ranks, and no other operation does.
#include <sys/mman.h>

#include <deque>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"
#include "tests/patience.h"
#include "tests/skip.h"

namespace dabke::test {

using Catch::Matchers::Contains;

namespace {

/// Starts a collective with an allocator that gives memory, or refuses.
Pending start(Rank& self, CollectiveKind kind, const std::string& name, std::vector<float>& data,
              bool refuses, std::deque<std::vector<float>>& given) {
  auto operation = OperationRef::adopt(new Operation);
  operation->request->kind = kind;
  operation->request->name = name;
  operation->request->tensors = {{name, DType::f32, Shape{static_cast<std::int64_t>(data.size())}}};
  operation->inputs = {view_of(data)};
  operation->outputs.resize(1);
  operation->make_extras().allocate = [refuses, &given](std::size_t, const TensorView& output) -> void* {
    if (refuses) return nullptr;
    return given.emplace_back(static_cast<std::size_t>(output.elements())).data();
  };
  must(self.runtime().submit(operation));
  return {operation, self.runtime()};
}

}  // namespace

TEST_CASE(
    "rows of no element are counted too: more than 63 bits can count fail on all ranks, and nothing else "
    "does") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto kind = GENERATE(CollectiveKind::allgather, CollectiveKind::alltoall);
  CAPTURE(backend, name_of(kind));
  constexpr std::int64_t kRows = std::int64_t{1} << 62;
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    const auto gather = [&](std::int64_t rows) {
      TensorView empty{nullptr, DType::u8, {}, Shape{rows, 0}};
      Call call{.name = "rows"};
      if (kind == CollectiveKind::alltoall) call.splits = {0, rows, 0};
      const Pending pending = self.start(kind, {{empty}}, call);
      const Status status = pending.wait();
      const std::int64_t got = status.is_ok() ? pending.view(0).shape[0] : -1;
      return std::pair(status, got);
    };
    const Status too_many = gather(kRows).first;
    const auto [status, rows] = gather(kRows / 4);
    must(status);
    return std::pair(too_many, rows);
  });
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    CHECK(seen[rank].first.code() == Code::out_of_memory);
    CHECK_THAT(seen[rank].first.message(), Contains("'rows'") && Contains("more than 2^63 - 1 bytes"));
    const bool has_rows = kind == CollectiveKind::allgather || rank == 1;
    CHECK(seen[rank].second == (has_rows ? kRows / 4 * 3 : 0));
  }
}

TEST_CASE(
    "an output allocator that refuses on one rank fails that operation on all ranks, and nothing else") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto kind =
      GENERATE(CollectiveKind::allgather, CollectiveKind::alltoall, CollectiveKind::reducescatter);
  CAPTURE(backend, name_of(kind));
  constexpr int kRanks = 3, kBad = 1;
  struct Seen {
    std::vector<Status> refused;
    std::vector<float> beside, again;
  };
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    Seen out;
    std::deque<std::vector<float>> given;
    std::vector<float> x(3 * kRanks, 1), y(3 * kRanks, 2);
    for (int round = 0; round < 3; ++round) {  // new in the first round, then cached
      const Pending bad = start(self, kind, "refused", x, self.rank() == kBad, given);
      const Pending good = start(self, kind, "beside", y, false, given);  // may be in the same batch
      out.refused.push_back(bad.wait());
      must(good.wait());
      out.beside = good.output<float>();
    }
    const Pending again = start(self, kind, "refused", x, false, given);
    must(again.wait());
    out.again = again.output<float>();
    return out;
  });
  for (const Seen& one : seen) {
    for (const Status& status : one.refused) {
      CHECK(status.code() == Code::out_of_memory);
      CHECK_THAT(status.message(), Contains(" 'refused' cannot run") && Contains("rank 1") &&
                                       Contains("allocator") && Contains("submit"));
    }
    const bool sums = kind == CollectiveKind::reducescatter;
    const std::size_t length = kind == CollectiveKind::allgather ? 3 * kRanks * kRanks
                               : sums                            ? 3
                                                                 : 3 * kRanks;
    CHECK(one.beside == std::vector<float>(length, sums ? 2 * kRanks : 2));
    CHECK(one.again == std::vector<float>(length, sums ? kRanks : 1));
  }
}

TEST_CASE("a group whose allocator refuses for one member fails as a whole, on all ranks") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto kind = GENERATE(CollectiveKind::allgather, CollectiveKind::reducescatter);
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::deque<std::vector<float>> given;
    std::vector<std::vector<float>> data(2, std::vector<float>(4, 1));
    auto operation = OperationRef::adopt(new Operation);
    operation->request->kind = kind;
    operation->request->name = std::string("a");
    operation->request->tensors = {{"a", DType::f32, Shape{4}}, {"b", DType::f32, Shape{4}}};
    operation->inputs = {view_of(data[0]), view_of(data[1])};
    operation->outputs.resize(2);
    operation->make_extras().allocate = [&](std::size_t index, const TensorView& output) -> void* {
      if (index == 1 && self.rank() == 1) return nullptr;
      return given.emplace_back(static_cast<std::size_t>(output.elements())).data();
    };
    must(self.runtime().submit(operation));
    const Status status = Pending(operation, self.runtime()).wait();
    std::vector<float> next = {1};
    must(self.allreduce(next));
    return status;
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::out_of_memory);
    CHECK_THAT(status.message(), Contains("rank 1") && Contains("'b'"));
  }
}

TEST_CASE("an allgather for which no machine has memory fails by itself") {
  if (test::kSanitized) DABKE_SKIP("the sanitizer needs the address space itself");
  const auto backend = GENERATE(from_range(backends_for_threads()));
  if (backend.is_on_device()) DABKE_SKIP("a fake device has such a tensor in this machine's memory");
  constexpr std::size_t kBytes = std::size_t{40} << 40;
  void* const huge = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (huge == MAP_FAILED) DABKE_SKIP("this machine reserves no such address range");
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    const TensorView view{huge, DType::u8, {}, Shape{static_cast<std::int64_t>(kBytes)}};
    const Status status = self.run(CollectiveKind::allgather, {{view}}, {.name = "huge"});
    std::vector<float> next = {1};
    must(self.allreduce(next));
    return status;
  });
  ::munmap(huge, kBytes);
  for (const Status& status : seen) {
    CHECK(status.code() == Code::out_of_memory);
    CHECK_THAT(status.message(), Contains("'huge'") && Contains("there is no memory for an output of"));
  }
}

}  // namespace dabke::test

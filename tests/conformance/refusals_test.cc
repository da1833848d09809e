// A call that one rank refuses at submission: the other ranks get that
// rank's error instead of waiting for it.
#include <catch2/catch.hpp>

#include "runtime/base/bytes.h"
#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

struct Bad {
  const char* what;
  CollectiveKind kind;
  const char* reason;
};

/// Starts a valid `bad.kind` of 'x' or, if `is_wrong`, one with the fault `bad.what`.
Pending start(Rank& self, const Bad& bad, bool is_wrong, std::vector<float>& memory) {
  constexpr std::int64_t kRows = 6;
  Call call{.name = "x"};
  TensorView input{memory.data(), DType::f32, {}, Shape{kRows}};
  if (!is_wrong) return self.start(bad.kind, {{input}}, call);
  const std::string_view what = bad.what;
  if (what == "no data") input.data = nullptr;
  if (what == "odd address") input.data = bytes_of(memory.data()) + 1;
  if (what == "a scalar") input.shape = Shape{};
  if (what == "splits") call.splits = {1, 2, 4};
  if (what == "rows") input.shape = Shape{kRows - 1};
  if (what == "root") call.root = 7;
  if (what == "another length") return self.start(bad.kind, {{input, view_of(memory)}}, call);
  return self.start(bad.kind, {{input}}, call);
}

}  // namespace

TEST_CASE(
    "what one rank refuses fails on the others with that rank's text, and the next call of the name runs") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const Bad bad =
      GENERATE(Bad{"no data", CollectiveKind::allreduce, "the input of tensor 'x' has no data"},
               Bad{"odd address", CollectiveKind::broadcast, "is not aligned to 4 bytes"},
               Bad{"a scalar", CollectiveKind::allgather, "tensor 'x' is a scalar"},
               Bad{"splits", CollectiveKind::alltoall, "split"},
               Bad{"rows", CollectiveKind::alltoall, "5 rows cannot be divided evenly among 3 ranks"},
               Bad{"root", CollectiveKind::broadcast, "root rank 7 is not in process set 0"},
               Bad{"another length", CollectiveKind::allreduce, "but the result is float32 [6]"});
  CAPTURE(backend, bad.what, name_of(bad.kind));
  if (backend.is_on_device()) return;  // copies on a device are aligned, and have data
  struct Seen {
    std::vector<Status> refused;
    bool again = true;
  };
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    Seen out;
    std::vector<float> memory(7, 1);
    const float sum = bad.kind == CollectiveKind::allreduce ? 3 : 1;
    for (int round = 0; round < 3; ++round) {  // new in the first round, then cached
      out.refused.push_back(start(self, bad, self.rank() == 1, memory).wait());
      std::vector<float> right(7, 1);
      const Pending again = start(self, bad, false, right);
      must(again.wait());
      const auto result = again.output<float>();
      out.again = out.again && result == std::vector<float>(result.size(), sum);
    }
    return out;
  });
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    for (const Status& status : seen[rank].refused) {
      CHECK(status.code() == Code::invalid_argument);
      CHECK_THAT(status.message(), Contains(bad.reason));
      if (rank != 1)
        CHECK_THAT(status.message(), Contains(" 'x' cannot run: rank 1") && Contains("the job continues"));
    }
    CHECK(seen[rank].again);
  }
}

TEST_CASE("ranks that all refuse a call leave nothing behind, though each says why by itself") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  const auto seen = run_on_ranks(backend, 3, [](Rank& self) {
    std::vector<float> x(3, 1);
    for (int round = 0; round < 4; ++round) {
      const Call call{
          .name = "x", .op = ReduceOp::bitwise_and, .group = round % 2 ? "g" : "", .group_size = 2};
      (void)must_fail(self.start(CollectiveKind::allreduce, {{view_of(x)}}, call).wait());
      if (round % 2 == 0) continue;
      Call second = call;
      second.name = "y";
      (void)must_fail(self.start(CollectiveKind::allreduce, {{view_of(x)}}, second).wait());
    }
    must(self.allreduce(x, {.name = "x"}));
    return x;
  });
  for (const auto& sums : seen) CHECK(sums == std::vector<float>(3, 3));
}

TEST_CASE(
    "a member that one rank refuses fails its group on all ranks, also where that rank submits no more of "
    "it") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const bool goes_on = GENERATE(false, true);
  CAPTURE(backend, goes_on);
  if (backend.is_on_device()) return;
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<float> a(4, 1), b(4, 1), c(4, 1);
    const auto member = [&](const std::string& name, TensorView view) {
      return self.start(CollectiveKind::allreduce, {{std::move(view)}},
                        {.name = name, .group = "g", .group_size = 3});
    };
    const bool refuses = self.rank() == 1;
    std::vector<Pending> pending{member("a", view_of(a))};
    pending.push_back(member("b", refuses ? TensorView{nullptr, DType::f32, {}, Shape{4}} : view_of(b)));
    if (!refuses || goes_on) pending.push_back(member("c", view_of(c)));
    std::vector<Status> ended;
    for (const Pending& one : pending) ended.push_back(one.wait());
    return ended;
  });
  for (const auto& ended : seen) {
    for (const Status& status : ended) {
      CHECK(status.code() == Code::invalid_argument);
      CHECK_THAT(status.message(), Contains("the input of tensor 'b' has no data"));
    }
  }
}

TEST_CASE("a binding that refuses a call by itself ends it on the others") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const ProcessSetId in_set = GENERATE(0, 1);
  CAPTURE(backend, in_set);
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    const ProcessSetId pair = self.add_process_set({0, 2});
    const ProcessSetId set = in_set != 0 ? pair : kWorldSet;
    if (in_set != 0 && self.rank() == 1) return Status();
    std::vector<float> x(3, 1);
    if (self.rank() != 2) return self.allreduce(x, {.name = "x", .set = set});
    Operation operation;
    operation.request->kind = CollectiveKind::allreduce;
    operation.request->name = "x";
    operation.request->process_set = set;
    operation.request->tensors.push_back({.name = "x"});
    return self.runtime().refuse(operation, {Code::invalid_argument, "its stride is 12"});
  });
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (in_set != 0 && rank == 1) continue;
    CHECK(seen[rank].code() == Code::invalid_argument);
    if (rank != 2)
      CHECK_THAT(seen[rank].message(), Contains("rank 2") && Contains(": its stride is 12. No data"));
  }
}

}  // namespace dabke::test

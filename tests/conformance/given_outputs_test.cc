// Outputs that the caller gives to an allgather or alltoall. An output that does not fit is reported on all
// ranks, and harms no other operation.
#include <catch2/catch.hpp>

#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

constexpr std::int64_t kColumns = 2;

/// Rows of numbers, and a view of them.
struct Rows {
  explicit Rows(std::int64_t rows, float value = -1)
      : data(static_cast<std::size_t>(rows * kColumns), value), count(rows) {}
  TensorView view() { return {data.empty() ? nullptr : data.data(), DType::f32, {}, Shape{count, kColumns}}; }
  bool all_are(float value) const { return data == std::vector<float>(data.size(), value); }

  std::vector<float> data;
  std::int64_t count;
};

CollectiveKind either() { return GENERATE(CollectiveKind::allgather, CollectiveKind::alltoall); }

/// Rows that a rank receives if each of `ranks` ranks has one row for each rank.
std::int64_t rows_for(CollectiveKind kind, std::int64_t ranks) {
  return kind == CollectiveKind::allgather ? ranks * ranks : ranks;
}

/// Starts the collective into `out`, which must live until the operation has completed.
Pending start_into(Rank& self, CollectiveKind kind, Rows& in, Rows& out, Call call) {
  return self.start(kind, {{in.view(), out.view()}}, call);
}

}  // namespace

TEST_CASE("an output of another length on one rank fails that operation on all ranks, and nothing else") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const CollectiveKind kind = either();
  const std::int64_t off_by = GENERATE(-1, 2);
  CAPTURE(backend, name_of(kind), off_by);
  constexpr int kRanks = 3, kBad = 1;
  const std::int64_t rows = rows_for(kind, kRanks);
  struct Seen {
    std::vector<Status> refused;
    bool was_left_alone = true, beside = true, own = true, again = false;
  };
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    Seen out;
    Rows in(kRanks, 3);
    for (int round = 0; round < 3; ++round) {  // new in the first round, then cached
      Rows bad_output(self.rank() == kBad ? rows + off_by : rows), good_output(rows);
      const Pending bad = start_into(self, kind, in, bad_output, {.name = "bad"});
      // may be in the same batch
      const Pending good = start_into(self, kind, in, good_output, {.name = "beside"});
      const Pending own = self.start(kind, {{in.view()}}, {.name = "own"});
      out.refused.push_back(bad.wait());
      must(good.wait());
      must(own.wait());
      out.was_left_alone = out.was_left_alone && bad_output.all_are(-1);
      out.beside = out.beside && good_output.all_are(3);
      out.own = out.own && own.output<float>() == good_output.data;
    }
    Rows right(rows);
    must(start_into(self, kind, in, right, {.name = "bad"}).wait());
    out.again = right.all_are(3);
    return out;
  });
  for (const Seen& one : seen) {
    for (const Status& status : one.refused) {
      CHECK(status.code() == Code::invalid_argument);
      CHECK(status.message() == seen[0].refused[0].message());
      const std::string shapes = "on rank 1 the output of tensor 'bad' is float32 [" +
                                 std::to_string(rows + off_by) + ", 2], but the result is float32 [" +
                                 std::to_string(rows) + ", 2]";
      CHECK_THAT(status.message(), Contains(std::string(name_of(kind)) + " 'bad' cannot run") &&
                                       Contains(shapes) && Contains("No data has moved") &&
                                       Contains("submit"));
    }
    CHECK(one.was_left_alone);
    CHECK(one.beside);
    CHECK(one.own);
    CHECK(one.again);
  }
}

TEST_CASE("ranks that give an output and ranks that do not get the same") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const CollectiveKind kind = either();
  CAPTURE(backend, name_of(kind));
  constexpr int kRanks = 3;
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    Rows in(kRanks, 5), given(rows_for(kind, kRanks));
    if (self.rank() == 2) {
      must(start_into(self, kind, in, given, {.name = "x"}).wait());
      return given.data;
    }
    const Pending own = self.start(kind, {{in.view()}}, {.name = "x"});
    must(own.wait());
    return own.output<float>();
  });
  const auto elements = static_cast<std::size_t>(rows_for(kind, kRanks) * kColumns);
  for (const auto& rows : seen) CHECK(rows == std::vector<float>(elements, 5));
}

TEST_CASE("in a process set the rank that an output does not fit is named by its world rank") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const CollectiveKind kind = either();
  CAPTURE(backend, name_of(kind));
  const std::int64_t rows = rows_for(kind, 2);
  struct Seen {
    Status bad;
    bool good = true;
  };
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    Seen out;
    const ProcessSetId pair = self.add_process_set({0, 2});
    if (self.rank() == 1) return out;
    Rows in(2, 4), right(rows), wrong(self.rank() == 2 ? rows + 1 : rows);
    const Pending bad = start_into(self, kind, in, wrong, {.name = "bad", .set = pair});
    const Pending good = start_into(self, kind, in, right, {.name = "good", .set = pair});
    out.bad = bad.wait();
    must(good.wait());
    out.good = right.all_are(4);
    return out;
  });
  for (const int rank : {0, 2}) {
    const Seen& one = seen[static_cast<std::size_t>(rank)];
    CHECK(one.bad.code() == Code::invalid_argument);
    CHECK_THAT(one.bad.message(), Contains("on rank 2 the output"));
    CHECK(one.good);
  }
}

TEST_CASE("a given output holds what the ranks bring that have not joined") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const CollectiveKind kind = either();
  CAPTURE(backend, name_of(kind));
  constexpr int kRanks = 3;
  const std::int64_t rows = kind == CollectiveKind::allgather ? 2 * kRanks : 2;
  struct Seen {
    Status bad;
    bool good = true;
    std::vector<std::int64_t> splits;
  };
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    Seen out;
    if (self.rank() != 1) {
      Rows in(kRanks, 6), right(rows), wrong(rows_for(kind, kRanks));
      out.bad = start_into(self, kind, in, wrong, {.name = "bad"}).wait();
      const Pending good = start_into(self, kind, in, right, {.name = "good"});
      must(good.wait());
      out.good = right.all_are(6);
      out.splits = good.received_splits();
    }
    must(self.join());
    return out;
  });
  for (const int rank : {0, 2}) {
    const Seen& one = seen[static_cast<std::size_t>(rank)];
    CHECK(one.bad.code() == Code::invalid_argument);
    CHECK_THAT(one.bad.message(),
               Contains("on rank 0 the output") && Contains("and 1 more rank has no room for it"));
    CHECK(one.good);
    if (kind == CollectiveKind::alltoall) CHECK(one.splits == std::vector<std::int64_t>{1, 0, 1});
  }
}

TEST_CASE("a group of which one output does not fit fails as a whole, on all ranks") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 2, [](Rank& self) {
    Rows a(1, 1), b(2, 2), into_a(2), into_b(self.rank() == 1 ? 5 : 4), right(4);
    const Status status =
        self.run(CollectiveKind::allgather, {{a.view(), into_a.view(), "a"}, {b.view(), into_b.view(), "b"}});
    must(
        self.run(CollectiveKind::allgather, {{a.view(), into_a.view(), "a"}, {b.view(), right.view(), "b"}}));
    return std::pair(status, into_a.all_are(1) && right.all_are(2));
  });
  for (const auto& [status, is_well] : seen) {
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(),
               Contains("rank 1") && Contains("'b'") && Contains("[5, 2]") && Contains("[4, 2]"));
    CHECK(is_well);
  }
}

TEST_CASE("an output without rows needs no memory") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const CollectiveKind kind = either();
  CAPTURE(backend, name_of(kind));
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    Rows in(0), out(0), nothing(0), filled(self.rank() == 0 ? 2 : 0, 8);
    must(start_into(self, kind, in, out, {.name = "empty"}).wait());
    // rows arrive, but there is room for none
    return start_into(self, kind, filled, nothing, {.name = "not empty"}).wait();
  });
  for (const Status& status : seen)
    CHECK_THAT(status.message(), Contains("is float32 [0, 2], but the result is float32 ["));
}

TEST_CASE("what is wrong with a given output by itself is told when it is submitted") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const CollectiveKind kind = either();
  CAPTURE(backend, name_of(kind));
  const auto seen = run_on_ranks(backend, 1, [&](Rank& self) {
    std::vector<float> memory(16);
    const TensorView input{memory.data(), DType::f32, {}, Shape{2, kColumns}};
    const auto told = [&](TensorView output) {
      if (backend.is_on_device()) return std::string();  // copies on a device do not overlap, and are aligned
      const Pending refused = self.start(kind, {{input, std::move(output)}}, {.name = "x"});
      return must_fail(refused.wait()).message();
    };
    const auto at = [&](std::size_t element) { return static_cast<void*>(memory.data() + element); };
    return std::vector<std::string>{
        told({at(8), DType::i32, {}, Shape{2, kColumns}}),
        told({at(8), DType::f32, {}, Shape{2, kColumns + 1}}),
        told({at(8), DType::f32, {}, Shape{4}}),
        told({at(8), DType::f32, {}, Shape{}}),
        told({nullptr, DType::f32, {}, Shape{2, kColumns}}),
        told({reinterpret_cast<std::byte*>(at(8)) + 1, DType::f32, {}, Shape{2, kColumns}}),
        told({at(3), DType::f32, {}, Shape{2, kColumns}}),
        told({at(8), DType::f32, {DeviceType::cuda, 1}, Shape{2, kColumns}}),
    };
  });
  if (backend.is_on_device()) return;
  const std::vector<std::string>& said = seen[0];
  const std::string who = std::string(name_of(kind)) + " 'x': ";
  const std::string behind =
      ", but the input is float32 [2, 2]; dtype and all dimensions but the first must be the same";
  CHECK(said[0] == who + "the output of tensor 'x' is int32 [2, 2]" + behind);
  CHECK(said[1] == who + "the output of tensor 'x' is float32 [2, 3]" + behind);
  CHECK(said[2] == who + "the output of tensor 'x' is float32 [4]" + behind);
  CHECK(said[3] == who + "the output of tensor 'x' is float32 []" + behind);
  CHECK(said[4] == who + "the output of tensor 'x' has no data");
  CHECK_THAT(said[5], Catch::StartsWith(who + "the output of tensor 'x' at ") &&
                          Contains("is not aligned to 4 bytes"));
  CHECK_THAT(said[6],
             Contains("overlap, and the output begins 12 bytes after the input; let it begin at the input"));
  CHECK_THAT(said[7], Contains("the output of tensor 'x' is on ") && Contains("must be on one device"));
}

}  // namespace dabke::test

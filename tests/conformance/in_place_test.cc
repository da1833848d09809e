// Outputs that lie where their inputs are. The two forms of in_place.h are valid for every collective that
// can have them. Any other overlap is refused on all ranks.
#include <algorithm>
#include <iterator>
#include <span>

#include <catch2/catch.hpp>

#include "runtime/base/bytes.h"
#include "tests/conformance/in_place.h"
#include "tests/in_process/job.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("an output may begin at its input, or lie at this rank's part of it, in batches of any size") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const InPlace how = GENERATE(from_range(std::begin(kInPlace), std::end(kInPlace)));
  const int ranks = GENERATE(1, 2, 3);
  CAPTURE(backend, name_of(how.kind), how.form == Form::at_the_input, ranks);
  const std::int64_t most_columns = kSanitized ? 4'000 : 40'000;  // half of this program's time otherwise
  const auto seen =
      run_on_ranks(backend, ranks, [&](Rank& self) { return wrong_in_place(self, how, most_columns); });
  CHECK(seen == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("an overlap that no form allows is refused on all ranks, where one rank alone has it") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto kind =
      GENERATE(CollectiveKind::allreduce, CollectiveKind::reducescatter, CollectiveKind::allgather);
  CAPTURE(backend, name_of(kind));
  if (backend.is_on_device()) return;  // copies on a device do not overlap
  struct Seen {
    Status refused;
    bool was_left_alone = false, again = false;
  };
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    constexpr std::int64_t kRows = 6, kColumns = 4;
    const std::int64_t given = kind == CollectiveKind::allgather       ? kRows * 3
                               : kind == CollectiveKind::reducescatter ? kRows / 3
                                                                       : kRows;
    std::vector<float> memory(40 * kColumns, 1);
    const auto call = [&](std::int64_t output_row) {
      const TensorView input = rows_at(memory, 0, kRows, kColumns);
      return self.start(kind, {{input, rows_at(memory, output_row, given, kColumns)}}, {.name = "x"}).wait();
    };
    Seen out;
    out.refused = call(self.rank() == 1 ? 1 : 20);  // row 1 is not the beginning of a rank's part
    out.was_left_alone = memory == std::vector<float>(40 * kColumns, 1);
    must(call(20));
    const float wanted = kind == CollectiveKind::allgather ? 1.0F : 3.0F;
    out.again = std::ranges::all_of(std::span(memory).subspan(20 * kColumns, to_size(given * kColumns)),
                                    [&](float one) { return one == wanted; });
    return out;
  });
  for (const Seen& one : seen) {
    CHECK(one.refused.code() == Code::invalid_argument);
    CHECK_THAT(one.refused.message(),
               Contains("input and output of tensor 'x' overlap") && Contains("after the input"));
    CHECK(one.was_left_alone);
    CHECK(one.again);
  }
  for (const int other : {0, 2})
    CHECK_THAT(seen[to_size(other)].refused.message(),
               Contains(" 'x' cannot run: rank 1") && Contains("No data has moved"));
}

TEST_CASE("an allgather's input inside its output, but not at its rank's part, fails on all ranks") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    std::vector<float> memory(12, 1);
    const bool is_wrong = self.rank() == 2;  // its part begins behind rank 0's row and rank 1's two rows
    const TensorView input = rows_at(memory,
                                     self.rank() == 0   ? 0
                                     : self.rank() == 1 ? 1
                                     : is_wrong         ? 2
                                                        : 3,
                                     self.rank() + 1, 2);
    return self.run(CollectiveKind::allgather, {{input, rows_at(memory, 0, 6, 2)}}, {.name = "x"});
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(), Contains("on rank 2 the input of tensor 'x' begins 16 bytes into its "
                                          "output, but that rank's part begins 24 bytes into it") &&
                                     Contains("No data has moved"));
  }
}

TEST_CASE("an output that overlaps another tensor of its call or group is refused on all ranks") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const bool one_by_one = GENERATE(false, true);
  CAPTURE(backend, one_by_one);
  if (backend.is_on_device()) return;  // copies on a device do not overlap
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<float> memory(64, 1);
    const std::int64_t second = self.rank() == 1 ? 4 : 16;
    const Argument a{rows_at(memory, 0, 8, 1), {}, "a"};
    const Argument b{rows_at(memory, 40, 8, 1), rows_at(memory, second, 8, 1), "b"};
    if (!one_by_one) return self.run(CollectiveKind::allreduce, {a, b});
    const Call member{.group = "g", .group_size = 2};
    const auto start = [&](const Argument& argument) {
      Call call = member;
      call.name = argument.name;
      return self.start(CollectiveKind::allreduce, {{argument.input, argument.output}}, call);
    };
    const Pending first = start(a), last = start(b);
    const Status status = first.wait();
    (void)must_fail(last.wait());
    return status;
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(),
               Contains("the output of tensor 'a' overlaps tensor 'b' of the same call or group"));
  }
}

}  // namespace dabke::test

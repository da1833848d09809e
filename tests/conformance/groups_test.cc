// Groups: what is reduced as one, whatever its members are.
#include <catch2/catch.hpp>

#include "tests/in_process/job.h"

namespace dabke::testing {

TEST_CASE("groups of 1 to 1,000 scalars are reduced, whatever their names") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  constexpr std::size_t kSizes[] = {1, 2, 3, 17, 1000};
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<float> sums;
    for (const std::size_t size : kSizes) {
      std::vector<float> values(size, static_cast<float>(self.rank() + 1));
      std::vector<Argument> scalars;
      for (std::size_t i = 0; i < size; ++i) {
        scalars.push_back({{&values[i], DType::f32, {}, Shape{}}, {}, std::to_string(i)});
      }
      must(self.run(CollectiveKind::allreduce, std::move(scalars), {.name = "scalars"}));
      sums.push_back(values.front());
      sums.push_back(values.back());
    }
    return sums;
  });
  for (const auto& sums : seen) CHECK(sums == std::vector<float>(2 * std::size(kSizes), 3));
}

}  // namespace dabke::testing

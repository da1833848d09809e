#include "runtime/backend/sliced_batch.h"

#include <cstdint>

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("tensors of more elements than 32 bits count are cut into slices that lie one behind the other") {
  const std::vector<std::string> hosts{"a", "a", "a", "b", "b", "b"};
  const std::int64_t elements[] = {(std::int64_t{1} << 31) + 4096, 7, (std::int64_t{1} << 34) + 1};
  std::byte* outputs[3];
  for (std::size_t e = 0; e < 3; ++e)
    outputs[e] = reinterpret_cast<std::byte*>((e + 1) << 45);  // never dereferenced
  std::int64_t cut[3] = {};
  for (int rank = 3; rank < 6; ++rank) {
    const ProcessSetInfo world{0, {0, 1, 2, 3, 4, 5}, rank};
    const HostedSet set = hosted(world, leaders_by_name(hosts));
    Batch batch;
    batch.kind = CollectiveKind::allreduce;
    batch.dtype = DType::f32;
    batch.process_set = &world;
    for (std::size_t e = 0; e < 3; ++e)
      batch.entries.push_back({outputs[e], outputs[e], elements[e], {}, {}});
    const SlicedBatch sliced(batch, set);
    std::int64_t carried = 0;
    for (std::size_t e = 0; e < 3; ++e) {
      CHECK(sliced.own_output(e) == outputs[e] + cut[e] * 4);
      cut[e] += sliced.own_count(e);
      carried += sliced.own_count(e);
    }
    CHECK(carried > (std::int64_t{1} << 32));
  }
  for (std::size_t e = 0; e < 3; ++e) CHECK(cut[e] == elements[e]);
}

}  // namespace dabke::test

#include "runtime/negotiation/batching/planner.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>

#include "runtime/backend/fusion_buffer.h"

namespace dabke::test {
namespace {

using Batches = std::vector<std::vector<std::size_t>>;

negotiation::PlanItem item(std::size_t bytes, DType dtype = DType::f32, ProcessSetId set = 0) {
  negotiation::PlanItem out;
  out.key.call.dtype = dtype;
  out.key.process_set = set;
  out.size_bytes = bytes;
  return out;
}

constexpr std::uint32_t kAlone = 16 << 20;

Batches plan(std::span<const negotiation::PlanItem> items, std::int64_t threshold) {
  return negotiation::plan_batches(items, {.threshold = threshold, .alone = kAlone});
}

}  // namespace

TEST_CASE("tensors of one key share a batch up to the threshold") {
  const std::vector<negotiation::PlanItem> items{item(64), item(64), item(64)};
  CHECK(plan(items, 128) == Batches{{0, 1}, {2}});
  CHECK(plan(items, 1 << 20) == Batches{{0, 1, 2}});
}

TEST_CASE("a threshold of 0 turns fusion off") {
  const std::vector<negotiation::PlanItem> items{item(4), item(4)};
  CHECK(plan(items, 0) == Batches{{0}, {1}});
}

TEST_CASE("a batch looks ahead past tensors that do not fit") {
  const std::vector<negotiation::PlanItem> items{item(64), item(4, DType::f16), item(192), item(64)};
  CHECK(plan(items, 128) == Batches{{0, 3}, {1}, {2}});
}

TEST_CASE("learned batches that come together are run together, up to a size") {
  constexpr std::size_t kThird = negotiation::kTogetherBytes / 3 / kFusionAlignment * kFusionAlignment;
  std::vector<negotiation::PlanItem> items(5, item(kThird));
  const std::uint64_t learned[] = {1, 1, 2, 2, 3};
  for (std::size_t i = 0; i < items.size(); ++i) items[i].key.learned = learned[i];
  CHECK(plan(items, 1 << 30) == Batches{{0, 1, 2}, {3, 4}});
  CHECK(plan(items, kThird) == Batches{{0}, {1}, {2}, {3}, {4}});
  items[2].key.call.op = ReduceOp::max;
  CHECK(plan(items, 1 << 30) == Batches{{0, 1, 3}, {2}, {4}});
}

TEST_CASE("a learned batch may be larger than what several are run together to") {
  std::vector<negotiation::PlanItem> items(5, item(negotiation::kTogetherBytes / 4));
  for (negotiation::PlanItem& i : items) i.key.learned = 1;
  CHECK(plan(items, 1 << 30) == Batches{{0, 1, 2, 3, 4}});
  items.push_back(item(64));
  CHECK(plan(items, 1 << 30) == Batches{{0, 1, 2, 3, 4}, {5}});  // the last is not in the learned batch
}

TEST_CASE("large tensors and alltoalls travel alone") {
  std::vector<negotiation::PlanItem> items{item(64), item(kAlone), item(64), item(64), item(64)};
  items[2].key.call.kind = items[3].key.call.kind = CollectiveKind::alltoall;
  CHECK(plan(items, 1 << 30) == Batches{{0, 4}, {1}, {2}, {3}});
}

TEST_CASE("every tensor is in one batch, every batch has one key and stays below the threshold") {
  const unsigned seed = GENERATE(take(50, random(0, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<negotiation::PlanItem> items(random() % 300);
  for (negotiation::PlanItem& i : items) {
    i = item(random() % 5000, random() % 2 ? DType::f32 : DType::i8, static_cast<int>(random() % 3));
    i.key.contributors = static_cast<int>(random() % 2);
  }
  const std::size_t threshold = random() % 20000;
  std::vector<int> seen(items.size());
  std::size_t last_first = 0;
  for (const auto& batch : plan(items, threshold)) {
    std::size_t bytes = 0;
    for (const std::size_t i : batch) {
      ++seen[i];
      bytes += fusion_padded(items[i].size_bytes);
      CHECK(items[i].key == items[batch.front()].key);
    }
    CHECK((batch.size() == 1 || bytes <= threshold));
    CHECK(batch.front() >= last_first);
    last_first = batch.front();
  }
  CHECK(seen == std::vector<int>(items.size(), 1));
}

TEST_CASE("the plan of one process set does not depend on other sets' tensors") {
  std::mt19937 random(7);
  std::vector<negotiation::PlanItem> both;
  for (int i = 0; i < 200; ++i)
    both.push_back(item(random() % 4000, DType::f32, static_cast<int>(random() % 2)));
  for (const ProcessSetId set : {0, 1}) {
    std::vector<negotiation::PlanItem> alone;
    std::map<std::size_t, std::size_t> place;  // from the place in `both` to the place in `alone`
    for (std::size_t i = 0; i < both.size(); ++i) {
      if (both[i].key.process_set != set) continue;
      place[i] = alone.size();
      alone.push_back(both[i]);
    }
    Batches projected;
    for (auto batch : plan(both, 10000)) {
      if (both[batch.front()].key.process_set != set) continue;
      for (std::size_t& i : batch) i = place[i];
      projected.push_back(batch);
    }
    CHECK(projected == plan(alone, 10000));
  }
}

}  // namespace dabke::test

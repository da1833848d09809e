// The tensors of a batch. The root decides, and every member of a process set has the same batch, whatever
// orders that others do not see lie in between.
#include <catch2/catch.hpp>

#include "runtime/negotiation/batching/batch_marks.h"
#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

using Names = std::vector<std::string>;

negotiation::Negotiator::Options fusing(std::size_t cache_capacity = 1000) {
  negotiation::Negotiator::Options options;
  options.sequencer.cache_capacity = cache_capacity;
  options.sequencer.fusion = {.threshold = 1 << 20, .alone = 1 << 20};
  options.static_sets = {{0, 1}};
  return options;
}

constexpr ProcessSetId kPair = 1;  // ranks 0 and 1

/// Makes all requests ready in this order while the data plane is busy. Returns
/// the batches of each of three ranks.
std::vector<Names> batches_when_ready_together(SimulatedJob& job, const std::vector<Request>& requests) {
  std::vector<std::size_t> before;
  for (Rank rank = 0; rank < 3; ++rank) before.push_back(job.batches(rank).size());
  job.negotiator(0).set_data_plane_busy(DeviceType::host, true);
  for (const Request& request : requests) {
    for (const Rank rank : {0, 2, 1}) {  // rank 1 comes last, so one message makes all complete at the root
      if (request.process_set == kPair && rank == 2) continue;
      job.submit(rank, request);
    }
  }
  job.run();
  job.negotiator(0).set_data_plane_busy(DeviceType::host, false);
  job.advance(std::chrono::milliseconds(1));
  job.run();
  std::vector<Names> seen;
  for (Rank rank = 0; rank < 3; ++rank) {
    const Names& all = job.batches(rank);
    seen.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(before[static_cast<std::size_t>(rank)]),
                      all.end());
  }
  return seen;
}

Request with_dtype(Request request, DType dtype) {
  for (TensorSpec& tensor : request.tensors) tensor.dtype = dtype;
  return request;
}

negotiation::UnmarkedOrder unmarked(wire::Order& order, const Request& request, std::uint64_t learned = 0) {
  return {&order, &request, learned};
}

}  // namespace

TEST_CASE("a barrier of a smaller process set ends the batch before it on ranks that do not see it as well") {
  SimulatedJob job(3, 1, fusing());
  const auto seen = batches_when_ready_together(
      job, {allreduce("a"), plain(CollectiveKind::barrier, "barrier", kPair), allreduce("b")});
  CHECK(seen[0] == seen[1]);
  CHECK(seen[0] == seen[2]);
  CHECK(job.all_complete());
}

TEST_CASE("a mismatch in a smaller process set leaves the world's batches alike") {
  SimulatedJob job(3, 1, fusing());
  job.negotiator(0).set_data_plane_busy(DeviceType::host, true);
  for (const Rank rank : {0, 2, 1}) job.submit(rank, allreduce("a"));
  job.submit(0, allreduce("odd", {4}, kPair));
  job.submit(1, allreduce("odd", {5}, kPair));
  for (const Rank rank : {0, 2, 1}) job.submit(rank, allreduce("b"));
  job.negotiator(0).set_data_plane_busy(DeviceType::host, false);
  job.run();
  CHECK(job.all_complete());
  CHECK(job.batches(0) == job.batches(1));
  CHECK(job.batches(0) == job.batches(2));
}

TEST_CASE("a slot of a smaller process set that is taken back does not divide the world's batch") {
  SimulatedJob job(3, 1, fusing(2));
  for (int round = 0; round < 3; ++round) {
    for (const Rank rank : {0, 1}) job.submit(rank, allreduce("pair's " + std::to_string(round), {4}, kPair));
    job.run();
    const auto seen = batches_when_ready_together(
        job, {allreduce("a" + std::to_string(round)), allreduce("b"), allreduce("c")});
    CHECK(seen[0] == Names{"0: a" + std::to_string(round) + ", b, c"});
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0] == seen[2]);
  }
  CHECK(job.all_complete());
}

TEST_CASE("a rank outside of a process set runs none of its batches, and the world's in the same order") {
  SimulatedJob job(3, 1, fusing());
  const auto seen = batches_when_ready_together(
      job, {allreduce("p", {4}, kPair), allreduce("a"), allreduce("q", {4}, kPair), allreduce("b")});
  CHECK(seen[0] == Names{"1: p, q", "0: a, b"});
  CHECK(seen[1] == seen[0]);
  CHECK(seen[2] == Names{"0: a, b"});
}

TEST_CASE("the tensors of a group may be in several batches, and are so on every rank") {
  SimulatedJob job(3, 1, fusing());
  Request group = allreduce("g");
  group.tensors = {{"g.0", DType::f32, {4}}, {"g.1", DType::f64, {4}}, {"g.2", DType::f32, {4}}};
  for (int round = 0; round < 2; ++round) {  // in full, then by its slot
    const auto seen =
        batches_when_ready_together(job, {with_dtype(allreduce("a"), DType::f64), group, allreduce("b")});
    CHECK(seen[0] == Names{"0: a, g.1", "0: g.0, g.2, b"});
    CHECK(seen[1] == seen[0]);
    CHECK(seen[2] == seen[0]);
  }
}

TEST_CASE("cached tensors that are not fused cost a few bytes a run of orders, not some each") {
  negotiation::Negotiator::Options options = fusing();
  options.sequencer.fusion.threshold = 0;
  SimulatedJob job(2, 1, options);
  std::size_t bytes = 0;
  for (int round = 0; round < 3; ++round) {
    bytes = job.bytes();
    job.negotiator(0).set_data_plane_busy(DeviceType::host, true);
    for (int i = 0; i < 100; ++i) {
      for (const Rank rank : {0, 1}) job.submit(rank, allreduce("t" + std::to_string(100 + i)));
    }
    job.run();
    job.negotiator(0).set_data_plane_busy(DeviceType::host, false);
    job.advance(std::chrono::milliseconds(1));
    job.run();
    bytes = job.bytes() - bytes;
  }
  REQUIRE(job.all_complete());
  CHECK(job.batches(1).size() == 300);
  CHECK(bytes < 1700);  // reports of one slot each, and one message with all orders
}

TEST_CASE("orders that move no data end batches where they complete or end something, and else do not") {
  const Request tensor = allreduce("t");
  const Request barrier = plain(CollectiveKind::barrier, "barrier");
  const auto batches_around = [&](wire::Order::Kind kind, const Request* request) {
    wire::Order first, between, second;
    between.kind = kind;
    const std::vector<negotiation::UnmarkedOrder> orders = {
        unmarked(first, tensor), {&between, request}, unmarked(second, tensor)};
    negotiation::mark_batches(orders, {.threshold = 1 << 20});
    return std::pair(first.batch, second.batch);
  };
  using Pair = std::pair<std::uint32_t, std::uint32_t>;
  CHECK(batches_around(wire::Order::Kind::run, &barrier) == Pair(0, 1));
  CHECK(batches_around(wire::Order::Kind::error, nullptr) == Pair(0, 1));
  CHECK(batches_around(wire::Order::Kind::left, nullptr) == Pair(0, 1));
  CHECK(batches_around(wire::Order::Kind::release, nullptr) == Pair(0, 0));
}

TEST_CASE("a group that no other tensor is to be mixed with keeps to itself") {
  Request group = allreduce("g");
  group.tensors = {{"g.0", DType::f32, {4}}, {"g.1", DType::f32, {4}}};
  const Request tensor = allreduce("t");
  wire::Order first, second, third;
  const std::vector<negotiation::UnmarkedOrder> orders = {unmarked(first, tensor), unmarked(second, group),
                                                          unmarked(third, tensor)};
  negotiation::mark_batches(orders, {.threshold = 1 << 20, .mixes_groups = false});
  CHECK(first.batch == 0);
  CHECK(second.batch == 1);
  CHECK(second.batch_by_tensor.empty());
  CHECK(third.batch == 0);
}

}  // namespace dabke::test

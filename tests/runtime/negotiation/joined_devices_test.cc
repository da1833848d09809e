// The fate of a device's tensors after a rank without such a device has joined.
#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

Request on_cuda(const std::string& name, ProcessSetId set = kWorldSet) {
  Request request = allreduce(name, {4}, set);
  request.device_type = DeviceType::cuda;
  return request;
}

Request join(ProcessSetId set = kWorldSet) { return plain(CollectiveKind::join, "join", set); }

/// Submits the request on all ranks but one.
std::vector<negotiation::Token> submit_without(SimulatedJob& job, Rank absent, const Request& request) {
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < job.size(); ++rank) {
    if (rank != absent) tokens.push_back(job.submit(rank, request));
  }
  job.run();
  return tokens;
}

}  // namespace

TEST_CASE("a device's tensor is an error, on all ranks, once a rank without such a device has joined") {
  SimulatedJob job(3, 1, {}, {2});
  std::vector<negotiation::Token> before = submit_without(job, -1, on_cuda("x"));
  for (const negotiation::Token token : before)
    CHECK(job.outcome(token).contributors == 3);  // it has a slot from here on
  job.submit(2, join());
  for (const negotiation::Token token : submit_without(job, 2, on_cuda("x"))) {
    CHECK(job.outcome(token).status.code() == Code::invalid_argument);
    CHECK(job.outcome(token).status.message() ==
          "allreduce 'x' cannot run: rank 2 has joined and has no cuda device; submit nothing on cuda after "
          "a rank without such a device has joined, or give every rank of process set 0 one");
  }
  for (const negotiation::Token token : submit_without(job, 2, allreduce("on the host")))
    CHECK(job.outcome(token).contributors == 2);
  submit_without(job, 2, join());
  CHECK(job.all_complete());
  CHECK_FALSE(job.is_over(0));
  for (const negotiation::Token token : submit_without(job, -1, on_cuda("x")))
    CHECK(job.outcome(token).contributors == 3);
}

TEST_CASE("a rank that has joined and has the device takes part in its tensors") {
  SimulatedJob job(3, 1, {}, {0});
  job.submit(2, join());
  for (const negotiation::Token token : submit_without(job, 2, on_cuda("x")))
    CHECK(job.outcome(token).contributors == 2);
  CHECK(job.executed(2) == std::vector<std::string>{"0:x"});
}

TEST_CASE(
    "the root hears of a joined rank without a device however deep it is, and whoever else has joined") {
  const unsigned seed = GENERATE(take(40, random(1, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  negotiation::Negotiator::Options options;
  options.topology = tree_of(12, 3, 1);  // each host's leader reports to the leader before
  const Rank without = 1 + static_cast<Rank>(random() % 11);
  SimulatedJob job(12, seed, options, {without});
  std::vector<Rank> joining{without};
  for (Rank rank = 0; rank < 12; ++rank) {
    if (rank != without && random() % 3 == 0) joining.push_back(rank);
  }
  std::vector<negotiation::Token> on_device, on_host;
  for (const Rank rank : joining) {
    job.submit(rank, join());
    if (random() % 2 == 0) job.step();
  }
  for (Rank rank = 0; rank < 12; ++rank) {
    if (std::ranges::count(joining, rank) > 0) continue;
    on_device.push_back(job.submit(rank, on_cuda("x")));
    on_host.push_back(job.submit(rank, allreduce("y")));
    if (random() % 2 == 0) job.step();
  }
  job.run();
  for (const negotiation::Token token : on_device) {
    CHECK_THAT(job.outcome(token).status.message(),
               Contains("rank " + std::to_string(without) + " on ") && Contains("no cuda device"));
  }
  for (const negotiation::Token token : on_host) CHECK(job.outcome(token).ran);
  for (Rank rank = 0; rank < 12; ++rank) {
    if (std::ranges::count(joining, rank) == 0) job.submit(rank, join());
  }
  job.run();
  CHECK(job.all_complete());
  for (const negotiation::Token token : submit_without(job, -1, on_cuda("z"))) CHECK(job.outcome(token).ran);
}

TEST_CASE("a process set does not mind who has joined another, and a group fails as a whole") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 1}, {0, 2}};
  SimulatedJob job(3, 1, options, {2});
  job.submit(2, join(2));
  const negotiation::Token fine = job.submit(0, on_cuda("x", 1));
  job.submit(1, on_cuda("x", 1));
  Request group = on_cuda("g", 2);
  group.tensors.push_back({"h", DType::f32, Shape({7})});
  group.is_group = true;
  const negotiation::Token whole = job.submit(0, group);
  job.run();
  CHECK(job.outcome(fine).ran);
  CHECK_THAT(job.outcome(whole).status.message(),
             Contains("allreduce group 'g' cannot run: rank 2 has joined"));
}

}  // namespace dabke::test

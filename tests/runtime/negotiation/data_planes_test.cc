// The data planes of host and devices: an order that waits for one of them does not delay the others.
#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

using std::chrono::milliseconds;

Request on(DeviceType type, Request request) {
  request.device_type = type;
  return request;
}

void submit_everywhere(SimulatedJob& job, const Request& request) {
  for (Rank rank = 0; rank < job.size(); ++rank) job.submit(rank, request);
  job.run();
}

/// Lets rank 0 run everything: no data plane is busy any more.
void let_all_go(SimulatedJob& job) {
  for (const DeviceType type : kDeviceTypes) job.negotiator(0).set_data_plane_busy(type, false);
  job.advance(milliseconds(0));
  job.run();
}

using Executed = std::vector<std::string>;

}  // namespace

TEST_CASE("host orders flow while the cuda data plane is busy, and the other way about") {
  const DeviceType busy = GENERATE(DeviceType::host, DeviceType::cuda);
  const DeviceType other = busy == DeviceType::host ? DeviceType::cuda : DeviceType::host;
  SimulatedJob job(3);
  for (int step = 0; step < 3; ++step) {  // in full, then by slot
    const std::size_t before = job.executed(2).size();
    job.negotiator(0).set_data_plane_busy(busy, true);
    submit_everywhere(job, on(busy, allreduce("held")));
    submit_everywhere(job, on(other, allreduce("flows")));
    submit_everywhere(job, on(busy, allreduce("held too")));
    CHECK(job.executed(2).size() == before + 1);
    CHECK(job.executed(2).back() == "0:flows");
    CHECK(job.negotiator(0).defers_orders());
    CHECK(job.negotiator(0).defers_orders(busy));
    CHECK_FALSE(job.negotiator(0).defers_orders(other));
    let_all_go(job);
    CHECK_FALSE(job.negotiator(0).defers_orders());
    for (Rank rank = 0; rank < 3; ++rank) {
      const Executed& all = job.executed(rank);
      CHECK(Executed(all.begin() + static_cast<std::ptrdiff_t>(before), all.end()) ==
            Executed{"0:flows", "0:held", "0:held too"});
    }
  }
  CHECK(job.all_complete());
}

TEST_CASE("tensors of two device types never share a batch, also where both have waited") {
  negotiation::Negotiator::Options options;
  options.sequencer.fusion = {.threshold = 1 << 20, .alone = 1 << 20};
  SimulatedJob job(2, 1, options);
  for (const DeviceType type : kDeviceTypes) job.negotiator(0).set_data_plane_busy(type, true);
  for (const char* name : {"a", "b"}) {
    submit_everywhere(job, on(DeviceType::host, allreduce(std::string("host ") + name)));
    submit_everywhere(job, on(DeviceType::cuda, allreduce(std::string("cuda ") + name)));
  }
  CHECK(job.executed(0).empty());
  let_all_go(job);
  for (Rank rank = 0; rank < 2; ++rank)
    CHECK(job.batches(rank) == Executed{"0: host a, host b", "0: cuda a, cuda b"});
}

TEST_CASE("a barrier counts as the host's: it takes along what waits there, and leaves the devices alone") {
  SimulatedJob job(2);
  for (const DeviceType type : kDeviceTypes) job.negotiator(0).set_data_plane_busy(type, true);
  submit_everywhere(job, on(DeviceType::cuda, allreduce("on cuda")));
  submit_everywhere(job, on(DeviceType::host, allreduce("on the host")));
  const negotiation::Token barrier = job.submit(0, plain(CollectiveKind::barrier, "barrier"));
  job.submit(1, plain(CollectiveKind::barrier, "barrier"));
  job.run();
  CHECK(job.outcome(barrier).completions == 1);
  CHECK(job.executed(1) == Executed{"0:on the host"});
  CHECK(job.negotiator(0).defers_orders(DeviceType::cuda));
  let_all_go(job);
  CHECK(job.executed(1) == Executed{"0:on the host", "0:on cuda"});
}

TEST_CASE("an error is never held back, whatever is busy") {
  SimulatedJob job(2);
  for (const DeviceType type : kDeviceTypes) job.negotiator(0).set_data_plane_busy(type, true);
  const DeviceType type = GENERATE(DeviceType::host, DeviceType::cuda);
  const negotiation::Token wrong = job.submit(0, on(type, allreduce("x", {4})));
  job.submit(1, on(type, allreduce("x", {5})));
  job.run();
  CHECK(job.outcome(wrong).status.code() == Code::mismatch);
}

TEST_CASE("what waits for a device runs before its process set is removed") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 1}};
  SimulatedJob job(3, 1, options);
  job.negotiator(0).set_data_plane_busy(DeviceType::cuda, true);
  const negotiation::Token x = job.submit(0, on(DeviceType::cuda, allreduce("x", {4}, 1)));
  job.submit(1, on(DeviceType::cuda, allreduce("x", {4}, 1)));
  job.run();
  CHECK(job.outcome(x).completions == 0);
  Request remove = plain(CollectiveKind::remove_process_set, "remove_process_set");
  remove.ranks = {1};
  submit_everywhere(job, remove);
  CHECK(job.outcome(x).ran);
  CHECK(job.all_complete());
}

TEST_CASE("what waits for a device runs before the join completes that it began before") {
  SimulatedJob job(3);
  job.negotiator(0).set_data_plane_busy(DeviceType::cuda, true);
  job.submit(2, plain(CollectiveKind::join, "join"));
  const negotiation::Token x = job.submit(0, on(DeviceType::cuda, allreduce("x")));
  job.submit(1, on(DeviceType::cuda, allreduce("x")));
  job.run();
  CHECK(job.outcome(x).completions == 0);
  for (const Rank rank : {0, 1}) job.submit(rank, plain(CollectiveKind::join, "join"));
  job.run();
  CHECK(job.outcome(x).contributors == 2);
  CHECK(job.all_complete());
  // The next request of this name is independent of the earlier one.
  std::vector<negotiation::Token> next;
  for (Rank rank = 0; rank < 3; ++rank)
    next.push_back(job.submit(rank, on(DeviceType::cuda, allreduce("x"))));
  job.run();
  let_all_go(job);
  for (const negotiation::Token token : next) CHECK(job.outcome(token).contributors == 3);
}

TEST_CASE("a cycle time bounds how long orders wait for each data plane by itself") {
  negotiation::Negotiator::Options options;
  options.sequencer.linger_limit = milliseconds(5);
  SimulatedJob job(2, 1, options);
  for (const DeviceType type : kDeviceTypes) job.negotiator(0).set_data_plane_busy(type, true);
  submit_everywhere(job, on(DeviceType::cuda, allreduce("on cuda")));
  job.advance(milliseconds(3));
  submit_everywhere(job, on(DeviceType::host, allreduce("on the host")));
  CHECK(job.negotiator(0).next_tick() == job.now() + milliseconds(2));
  job.advance(milliseconds(2));
  job.run();
  CHECK(job.executed(1) == Executed{"0:on cuda"});
  CHECK(job.negotiator(0).next_tick() == job.now() + milliseconds(3));
  job.advance(milliseconds(3));
  job.run();
  CHECK(job.executed(1) == Executed{"0:on cuda", "0:on the host"});
}

}  // namespace dabke::test

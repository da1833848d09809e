// The program's own streams and events, on the doubles: a collective waits for them, and they wait for it.
#include <algorithm>
#include <barrier>
#include <tuple>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/ops/nccl/program_tensors.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using fake_cuda::Capture;
using fake_cuda::Gate;
using fake_cuda::Stream;

/// Runs one more sum. The job goes on after a refused call.
float next_sum(Rank& self) {
  std::vector<float> one = {1};
  must(self.allreduce(one, {.name = "next"}));
  return one[0];
}

const Setup& nccl() { return setup_named("nccl"); }

}  // namespace

TEST_CASE(
    "a collective reads what the caller's stream is still to write, and the call does not wait for it") {
  const std::uintptr_t number = GENERATE(0, 1, 2);  // none, the legacy stream, that of the thread
  const bool by_event = GENERATE(false, true);
  CAPTURE(number, by_event);
  const auto seen = run_on_ranks(nccl(), 2, [&](Rank& self) {
    const Stream stream = number == 0 ? Stream(self.rank()) : Stream::numbered(number, self.rank());
    const Tensor floats(self, 5);
    const Tensor<std::int16_t> shorts(self, 5);  // copied to the host and back
    Gate gate;
    gate.hold(stream);
    floats.write_on(stream, 3);
    shorts.write_on(stream, 4);
    const Behind behind = by_event ? Behind{.event = stream.record()} : Behind{.stream = stream.handle()};
    const auto first = sum_of(floats.view(), "floats", behind);
    const auto second = sum_of(shorts.view(), "shorts", behind);
    must(self.runtime().submit(first));
    // The ranks have negotiated this later, and it has ended. So only the stream delays the first one.
    std::vector<float> host = {1};
    must(self.allreduce(host, {.name = "host", .on_device = false}));
    // submitted later, because it holds the host's lane until its data are copied there
    must(self.runtime().submit(second));
    const bool was_done = first->is_done() || second->is_done();
    gate.open();
    finish(first);
    finish(second);
    return std::tuple(was_done, floats.values(), shorts.values());
  });
  for (const auto& one : seen)
    CHECK(one == std::tuple(false, std::vector<float>(5, 6), std::vector<std::int16_t>(5, 8)));
}

TEST_CASE("what comes onto the stream after the call is not waited for") {
  const auto seen = run_on_ranks(nccl(), 2, [](Rank& self) {
    const Stream stream(self.rank());
    const Tensor tensor(self, 5);
    tensor.write_on(stream, 1);
    const auto operation = sum_of(tensor.view(), "x", {.stream = stream.handle()});
    must(self.runtime().submit(operation));
    Gate gate;
    gate.hold(stream);
    finish(operation);
    return tensor.values();
  });
  CHECK(seen == std::vector(2, std::vector<float>(5, 2)));
}

TEST_CASE("tensors of many streams, written late and in another order on each rank, each have their sum") {
  constexpr int kCalls = 60;
  const Planned delays("", 7);
  const auto wrong = run_on_ranks(nccl(), 3, [](Rank& self) {
    std::vector<Stream> streams;
    for (int i = 0; i < 4; ++i) streams.emplace_back(self.rank());
    std::vector<Tensor<float>> tensors;
    for (int i = 0; i < kCalls; ++i) tensors.emplace_back(self, static_cast<std::size_t>(i) * 40 + 1);
    int bad = 0;
    for (int step = 1; step <= 3; ++step) {
      std::vector<OperationRef> pending;
      std::vector<Behind> behinds;  // the events live until all operations have ended
      for (int i = 0; i < kCalls; ++i) {
        const int call = (i * 7 + self.rank() * 13) % kCalls;
        const Stream& stream = streams[static_cast<std::size_t>(call * 5 + self.rank()) % 4];
        const Tensor<float>& tensor = tensors[static_cast<std::size_t>(call)];
        tensor.write_on(stream, static_cast<float>(call * step));
        behinds.push_back(call % 3 == 0 ? Behind{.event = stream.record()} : Behind{stream.handle()});
        pending.push_back(sum_of(tensor.view(), fmt::format("call {}", call), behinds.back()));
        must(self.runtime().submit(pending.back()));
      }
      for (const auto& one : pending) finish(one);
      for (int call = 0; call < kCalls; ++call) {
        const auto values = tensors[static_cast<std::size_t>(call)].values();
        bad += values == std::vector(values.size(), static_cast<float>(3 * call * step)) ? 0 : 1;
      }
    }
    return bad;
  });
  CHECK(wrong == std::vector(3, 0));
}

TEST_CASE("a stream or an event of a capture is refused, the capture goes on, and so does the job") {
  const auto seen = run_on_ranks(nccl(), 2, [](Rank& self) {
    const Stream captured(self.rank());
    const Tensor tensor(self, 5);
    const auto submit = [&](const Behind& behind) {
      return must_fail(self.runtime().submit(sum_of(tensor.view(), "x", behind)));
    };
    std::vector<Status> refused;
    std::shared_ptr<void> event;
    {
      const Capture capture(captured);
      refused.push_back(submit({.stream = captured.handle()}));
      refused.push_back(submit({.stream = Stream::numbered(1, self.rank()).handle()}));
      event = captured.record();
    }
    refused.push_back(submit({.event = event}));
    const auto well = sum_of(tensor.view(), "x", {.stream = captured.handle()});
    must(self.runtime().submit(well));
    finish(well);
    return std::pair(refused, next_sum(self));
  });
  for (const auto& [refused, sum] : seen) {
    for (const Status& status : refused) {
      CHECK(status.code() == Code::invalid_argument);
      CHECK_THAT(status.message(), Contains("allreduce 'x': ") && Contains("captured into a CUDA graph") &&
                                       Contains("before the capture begins or after it ends"));
    }
    CHECK(sum == 2);
  }
}

TEST_CASE("a thread that captures something else may submit, also where that takes memory of the device") {
  const auto seen = run_on_ranks(nccl(), 2, [](Rank& self) {
    const Stream captured(self.rank());
    const Tensor tensor(self, 2);
    tensor.fill(1);
    const Stream other(self.rank());
    const Capture capture(captured);
    const Behind behind{.event = other.record()};
    const auto scattered = sum_of(tensor.view(), "x", behind, CollectiveKind::reducescatter);
    must(self.runtime().submit(scattered));
    finish(scattered);
    return *static_cast<float*>(scattered->outputs[0].data);
  });
  CHECK(seen == std::vector<float>{2, 2});
}

TEST_CASE("a stream of another device is refused by name") {
  const auto seen = run_on_ranks(nccl(), 2, [](Rank& self) {
    const Stream elsewhere(self.rank() + 4);
    const Tensor tensor(self, 5);
    Status refused =
        must_fail(self.runtime().submit(sum_of(tensor.view(), "x", {.stream = elsewhere.handle()})));
    return std::pair(refused, next_sum(self));
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(seen[rank].first.code() == Code::invalid_argument);
    CHECK_THAT(seen[rank].first.message(), Contains("CUDA_ERROR_INVALID_HANDLE") &&
                                               Contains(fmt::format("does not belong to cuda:{}", rank)));
    CHECK(seen[rank].second == 2);
  }
}

TEST_CASE("who submits behind a stream of a device that is lost hears of it at once, in the driver's words") {
  const auto seen = run_on_ranks(nccl(), 1, [](Rank& self) {
    const Stream stream(self.rank());
    const Tensor tensor(self, 5);
    const Planned fault("cuEventRecord 0 1 719");
    return must_fail(self.runtime().submit(sum_of(tensor.view(), "x", {.stream = stream.handle()})));
  });
  CHECK(seen[0].code() == Code::transport);
  CHECK_THAT(seen[0].message(), Contains("allreduce 'x': cuEventRecord: CUDA_ERROR_LAUNCH_FAILED (719)"));
}

TEST_CASE("tensors of the host have no stream, and neither has what has no tensors") {
  const auto seen = run_on_ranks(nccl(), 2, [](Rank& self) {
    const Stream stream(self.rank());
    float x = 0;
    const Status host = must_fail(
        self.runtime().submit(sum_of({&x, DType::f32, {}, Shape{1}}, "x", {.stream = stream.handle()})));
    auto barrier = OperationRef::adopt(new Operation);
    barrier->request->kind = CollectiveKind::barrier;
    barrier->request->name = "barrier";
    const auto event = stream.record();
    barrier->make_extras().ready_event = {event.get()};
    const Status empty = must_fail(self.runtime().submit(barrier));
    return std::tuple(host, empty, next_sum(self));
  });
  for (const auto& [host, empty, sum] : seen) {
    CHECK_THAT(host.message(), Contains("allreduce 'x'") && Contains("tensors on the host"));
    CHECK_THAT(empty.message(), Contains("barrier") && Contains("no tensors"));
    CHECK(sum == 2);
  }
}

TEST_CASE("a step needs the host at no point: each collective waits for the stream, and the stream for it") {
  constexpr int kSteps = 20;
  const Planned delays("", 11);
  const auto seen = run_on_ranks(nccl(), 3, [](Rank& self) {
    const Stream stream(self.rank());
    const Tensor floats(self, 1000);
    const Tensor<std::int16_t> shorts(self, 3);  // moves through the host
    floats.write_on(stream, 1);
    shorts.write_on(stream, 1);
    std::vector<OperationRef> all;
    const auto sum = [&](const TensorView& view, const std::string& name) {
      all.push_back(sum_of(view, name, {.stream = stream.handle()}));
      must(self.runtime().submit(all.back()));
      all.back()->wait_until_enqueued(kNever);
      if (const auto end = all.back()->end_on_device()) must(end->hold_back({stream.handle()}));
    };
    for (int step = 0; step < kSteps; ++step) {
      sum(floats.view(), "floats");
      stream.enqueue(
          [floats] { std::ranges::transform(floats, floats.begin(), [](float x) { return x - 2; }); });
      if (step % 4 == 0) sum(shorts.view(), "shorts");
      stream.enqueue([shorts] {
        std::ranges::transform(shorts, shorts.begin(), [](std::int16_t x) { return x == 3 ? 1 : x; });
      });
    }
    stream.synchronize();
    for (const auto& one : all) finish(one);
    return std::pair(floats.values(), shorts.values());
  });
  // 1, summed over three ranks, less 2, is 1 again.
  for (const auto& one : seen)
    CHECK(one == std::pair(std::vector<float>(1000, 1), std::vector<std::int16_t>(3, 1)));
}

TEST_CASE("a stream that waits for a collective goes on when the job fails, and the handle says why") {
  const Planned fault("ncclAllReduce * 1 hang");
  std::barrier both(2);
  const auto seen = run_on_ranks(nccl(), 2, [&](Rank& self) {
    const Stream stream(self.rank());
    const Tensor tensor(self, 5);
    const auto operation = sum_of(tensor.view(), "x", {.stream = stream.handle()});
    must(self.runtime().submit(operation));
    operation->wait_until_enqueued(kNever);
    const auto end = operation->end_on_device();
    if (end != nullptr) must(end->hold_back({stream.handle()}));
    both.arrive_and_wait();
    if (end == nullptr) return std::string("it has ended, and should hang");
    if (self.rank() == 1) self.runtime().abort("the test ends it");
    stream.synchronize();
    operation->wait_until(kNever);
    return operation->status().message();
  });
  for (const std::string& text : seen) CHECK_THAT(text, Contains("the test ends it"));
}

TEST_CASE("the events of a step are those of the step before") {
  const auto seen = run_on_ranks(nccl(), 2, [](Rank& self) {
    const Stream stream(self.rank());
    const Tensor tensor(self, 5);
    const auto step = [&] {
      const auto operation = sum_of(tensor.view(), "x", {.stream = stream.handle()});
      must(self.runtime().submit(operation));
      finish(operation);
    };
    // Several at a time: on a busy machine, a step begins before the lane has finished the steps before it.
    std::vector<Tensor<float>> tensors;
    for (int i = 0; i < 4; ++i) tensors.emplace_back(self, 5);
    for (int i = 0; i < 10; ++i) {
      std::vector<OperationRef> pending;
      for (std::size_t k = 0; k < tensors.size(); ++k) {
        pending.push_back(sum_of(tensors[k].view(), fmt::format("y{}", k), {.stream = stream.handle()}));
        must(self.runtime().submit(pending.back()));
      }
      for (const auto& one : pending) finish(one);
      step();
    }
    must(self.barrier());
    if (self.rank() == 0) plan_faults("cuEventCreate * 1 2");
    must(self.barrier());
    for (int i = 0; i < 50; ++i) step();
    must(self.barrier());
    if (self.rank() == 0) plan_faults("");
    return next_sum(self);
  });
  CHECK(seen == std::vector<float>{2, 2});
}

}  // namespace dabke::test

// The promises of a device's lane, on fake devices.
#include <algorithm>
#include <barrier>
#include <numeric>
#include <random>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

const Setup kDevice = setup_named("device");
const Setup kStaged = setup_named("staged");

TensorView on_device(Rank& self, DeviceBuffer& memory, const std::vector<float>& values) {
  memory = allocate_from(self.device()->memory(), values.size() * sizeof(float));
  self.device()->write(memory.get(), values.data(), values.size() * sizeof(float));
  return {memory.get(),
          DType::f32,
          {DeviceType::cuda, self.device()->index()},
          Shape{static_cast<std::int64_t>(values.size())}};
}

std::vector<float> read(Rank& self, const TensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.elements()));
  self.device()->read(values.data(), view.data, view.size_bytes());
  return values;
}

OperationRef allreduce_of(const TensorView& view, const std::string& name) {
  auto operation = OperationRef::adopt(new Operation);
  operation->request->kind = CollectiveKind::allreduce;
  operation->request->name = name;
  operation->request->op = ReduceOp::sum;
  operation->request->tensors.push_back({name, view.dtype, view.shape});
  operation->inputs.push_back(view);
  operation->outputs.push_back({});
  return operation;
}

}  // namespace

TEST_CASE(
    "tensors of host and device go side by side, in another order on each rank, and each gets its own "
    "result") {
  const auto setup = GENERATE(kDevice, kStaged);
  const int ranks = GENERATE(2, 3, 4);
  CAPTURE(setup, ranks);
  Config config = quiet_config();
  config.fusion_threshold = GENERATE(0, 4096);
  Job job(setup, ranks, config);
  constexpr int kCalls = 300;
  const auto wrong = job.run([&](Rank& self) {
    std::vector<int> order(kCalls);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, std::mt19937(static_cast<unsigned>(self.rank())));
    std::vector<std::vector<float>> sums(kCalls);
    std::vector<std::vector<int>> rows(kCalls);
    std::vector<Pending> pending(kCalls);
    for (const int call : order) {
      const auto i = static_cast<std::size_t>(call);
      const Call what{.name = "call " + std::to_string(call), .on_device = call % 3 != 0};
      sums[i].assign(i % 50 + 1, static_cast<float>(call));
      rows[i].assign(static_cast<std::size_t>(self.rank()) + 1, call);
      pending[i] = call % 5 == 4 ? self.allgather_async(rows[i], what) : self.allreduce_async(sums[i], what);
    }
    int bad = 0;
    for (int call = 0; call < kCalls; ++call) {
      const auto i = static_cast<std::size_t>(call);
      must(pending[i].wait());
      if (call % 5 == 4) {
        const std::vector<int> want(static_cast<std::size_t>(ranks * (ranks + 1) / 2), call);
        bad += pending[i].output<int>() == want ? 0 : 1;
      } else {
        bad += sums[i] == std::vector<float>(i % 50 + 1, static_cast<float>(call * ranks)) ? 0 : 1;
      }
    }
    return bad;
  });
  CHECK(wrong == std::vector(static_cast<std::size_t>(ranks), 0));
}

TEST_CASE("an input that is not there yet is waited for by the device, and by nobody else") {
  const auto seen = run_on_ranks(kDevice, 2, [](Rank& self) {
    DeviceBuffer memory;
    const TensorView view = on_device(self, memory, {0, 0});
    const auto ready = std::make_shared<FakeEvent>();
    OperationRef operation = allreduce_of(view, "late");
    operation->make_extras().ready_event = {ready.get()};
    must(self.runtime().submit(operation));
    std::vector<float> host = {1};
    must(self.allreduce(host, {.name = "other", .on_device = false}));
    const bool was_done = operation->is_done();
    const std::vector<float> values = {1, 2};
    self.device()->write(memory.get(), values.data(), 2 * sizeof(float));
    ready->reach({});
    operation->wait_until(kNever);
    must(operation->status());
    return std::tuple(was_done, host, read(self, operation->outputs[0]));
  });
  for (const auto& one : seen)
    CHECK(one == std::tuple(false, std::vector<float>{2}, std::vector<float>{2, 4}));
}

TEST_CASE("a stream of the program's waits for an operation on a device, and the host does not") {
  const auto seen = run_on_ranks(kDevice, 2, [](Rank& self) {
    DeviceBuffer memory;
    const TensorView view = on_device(self, memory, {1, 2});
    const auto ready = std::make_shared<FakeEvent>();
    OperationRef operation = allreduce_of(view, "late");
    operation->make_extras().ready_event = {ready.get()};
    must(self.runtime().submit(operation));
    operation->wait_until_enqueued(kNever);
    const bool was_done = operation->is_done();
    const auto program = self.device()->open_stream();
    must(operation->end_on_device()->hold_back({program.get()}));
    std::vector<float> read_there(2);
    must(program->copy_to_host(read_there.data(), view.data, view.size_bytes()));
    const auto has_read = std::static_pointer_cast<FakeEvent>(must(program->record()));
    ready->reach({});
    must(has_read->wait());
    operation->wait_until(kNever);
    must(operation->status());
    const bool has_end = operation->end_on_device() != nullptr;  // there is nothing left to wait for
    return std::tuple(was_done, read_there, has_end);
  });
  for (const auto& one : seen) CHECK(one == std::tuple(false, std::vector<float>{2, 4}, false));
}

TEST_CASE("a group is on its way to a device once the last of its batches is") {
  const auto seen = run_on_ranks(kDevice, 2, [](Rank& self) {
    DeviceBuffer memory[2];
    const auto ready = std::make_shared<FakeEvent>();
    OperationRef operation = allreduce_of(on_device(self, memory[0], {1}), "group.0");
    // 16-bit integers run on the host once the input is there: in a batch of their own, which is late.
    TensorView shorts = on_device(self, memory[1], {0});
    shorts.dtype = DType::i16;
    shorts.shape = Shape{2};
    operation->request->tensors.push_back({"group.1", shorts.dtype, shorts.shape});
    operation->inputs.push_back(shorts);
    operation->outputs.push_back({});
    operation->make_extras().ready_event = {ready.get()};
    must(self.runtime().submit(operation));
    operation->wait_until_enqueued(deadline_after(0.05));
    const bool was_early = operation->end_on_device() != nullptr;
    ready->reach({});
    operation->wait_until_enqueued(kNever);
    const bool is_there = operation->is_done() || operation->end_on_device() != nullptr;
    operation->wait_until(kNever);
    must(operation->status());
    return std::pair(was_early, is_there);
  });
  for (const auto& one : seen) CHECK(one == std::pair(false, true));
}

TEST_CASE("who waits until an operation is on its way hears of its failure") {
  const auto seen = run_on_ranks(kDevice, 2, [](Rank& self) {
    DeviceBuffer memory;
    OperationRef operation =
        allreduce_of(on_device(self, memory, std::vector<float>(self.rank() + 1, 1)), "x");
    must(self.runtime().submit(operation));
    operation->wait_until_enqueued(kNever);
    return std::pair(operation->status(), operation->end_on_device() != nullptr);
  });
  for (const auto& [status, has_end] : seen) {
    CHECK(status.code() == Code::mismatch);
    CHECK_FALSE(has_end);
  }
}

TEST_CASE("a full lane of a device holds back no order of the host") {
  const auto seen = run_on_ranks(kDevice, 2, [](Rank& self) {
    const auto ready = std::make_shared<FakeEvent>();
    std::vector<DeviceBuffer> memory(20);
    std::vector<OperationRef> waiting;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      waiting.push_back(allreduce_of(on_device(self, memory[i], {1}), "device " + std::to_string(i)));
      waiting.back()->make_extras().ready_event = {ready.get()};
      must(self.runtime().submit(waiting.back()));
    }
    float sum = 0;
    for (int i = 0; i < 50; ++i) {
      std::vector<float> host = {1};
      must(self.allreduce(host, {.name = "host", .on_device = false}));
      sum += host[0];
    }
    const bool any_done = std::ranges::any_of(waiting, [](const auto& one) { return one->is_done(); });
    ready->reach({});
    for (const auto& one : waiting) {
      one->wait_until(kNever);
      must(one->status());
    }
    return std::pair(sum, any_done);
  });
  for (const auto& one : seen) CHECK(one == std::pair(100.0f, false));
}

TEST_CASE("an error of the device fails what it runs, and the job, with the device's text") {
  const auto setup = GENERATE(kDevice, kStaged);
  const int after = GENERATE(0, 1, 2, 5, 13);
  CAPTURE(setup, after);
  Job job(setup, 3);
  const auto seen = job.run([&](Rank& self) {
    std::vector<float> x(8, 1.0f);
    must(self.allreduce(x, {.name = "well"}));
    if (self.rank() == 1) self.device()->fail_after(after);
    Status status;
    for (int i = 0; i < 100 && status.is_ok(); ++i) status = self.allreduce(x, {.name = "step"});
    return status;
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::transport);
    CHECK_THAT(status.message(), Contains("cuda:1 is lost: an injected error"));
  }
}

TEST_CASE(
    "what a device does not come to the end of fails 5 s after the job, and its memory is not used again") {
  const auto setup = GENERATE(kDevice, kStaged);
  CAPTURE(setup);
  Job job(setup, 2);
  std::barrier both(2);
  const auto seen = job.run([&](Rank& self) {
    std::vector<float> x(8, 1.0f);
    must(self.allreduce(x, {.name = "well"}));
    both.arrive_and_wait();
    self.device()->hang();
    auto pending = self.allreduce_async(x, {.name = "stuck"});
    self.device()->wait_until_it_hangs();
    const TimePoint start = Clock::now();  // before either rank has aborted
    both.arrive_and_wait();
    if (self.rank() == 0) self.runtime().abort("the test has had enough");
    const Status status = pending.wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    self.device()->go_on();
    return std::pair(status, seconds);
  });
  for (const auto& [status, seconds] : seen) {
    CHECK_THAT(status.message(), Contains("the test has had enough"));
    CHECK(seconds > 4);
    CHECK(seconds < 5 + std::chrono::duration<double>(test::kPatience).count());
  }
}

TEST_CASE("a device that goes on after the job has failed is waited for, also beyond 5 s") {
  constexpr int kOperations = 12;  // operations of several batches
  Config config = quiet_config();
  config.fusion_threshold = 0;  // one batch per tensor
  config.cycle_time = 1;  // otherwise, once four batches are under way, the next wait until one of them ends
  Job job(kDevice, 2, config);
  std::barrier both(2);
  const auto seen = job.run([&](Rank& self) {
    std::vector<std::vector<float>> x(6, std::vector<float>(8, 1.0f));
    must(self.allreduce(x[0], {.name = "well"}));
    both.arrive_and_wait();
    self.device()->hang();
    std::vector<Pending> pending;
    for (auto& one : x) pending.push_back(self.allreduce_async(one));
    self.device()->wait_until_it_has(kOperations);
    both.arrive_and_wait();
    self.device()->slow_down(std::chrono::milliseconds(300));
    if (self.rank() == 0) self.runtime().abort("the test has had enough");
    const TimePoint start = Clock::now();  // before any operation can end
    self.device()->go_on();
    std::size_t told = 0;
    for (const Pending& one : pending)
      told += one.wait().message().find("the test has had enough") != std::string::npos ? 1 : 0;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    self.device()->slow_down(Duration());
    return std::tuple(told, self.device()->kept(), seconds);
  });
  for (const auto& [told, kept, seconds] : seen) {
    CHECK(told == 6);
    CHECK(kept == 0);
    CHECK(seconds > 5.5);  // otherwise the test has shown nothing
  }
}

TEST_CASE("an allgather for which a device has no memory fails by itself, on all ranks") {
  const auto setup = GENERATE(kDevice, kStaged);
  CAPTURE(setup);
  const auto seen = run_on_ranks(setup, 3, [](Rank& self) {
    std::vector<float> next = {1};
    must(self.allreduce(next, {.name = "first"}));
    std::vector<float> rows(std::size_t{6} << 20, 1.0f);
    DeviceBuffer memory;
    auto operation = allreduce_of(on_device(self, memory, rows), "large");
    operation->request->kind = CollectiveKind::allgather;
    if (self.rank() == 1) self.device()->memory()->limit(4096);
    must(self.runtime().submit(operation));
    operation->wait_until(kNever);
    must(self.allreduce(next, {.name = "second"}));
    return std::pair(operation->status(), next);
  });
  for (const auto& [status, next] : seen) {
    CHECK(status.code() == Code::out_of_memory);
    CHECK_THAT(status.message(),
               Contains("'large'") && Contains("on rank 1 there is no memory for an output of"));
    CHECK(next == std::vector<float>{9});
  }
}

TEST_CASE("a rank takes part in a process set with one device") {
  const auto seen = run_on_ranks(kDevice, 2, [](Rank& self) {
    std::vector<float> x = {1};
    must(self.allreduce(x, {.name = "x"}));
    DeviceBuffer memory;
    TensorView elsewhere = on_device(self, memory, {1});
    elsewhere.device.index += 4;
    return must_fail(self.runtime().submit(allreduce_of(elsewhere, "y")));
  });
  CHECK_THAT(seen[0].message(), Contains("cuda:4") && Contains("are on cuda:0") && Contains("process set 0"));
  CHECK_THAT(seen[1].message(), Contains("cuda:5") && Contains("are on cuda:1"));
}

TEST_CASE("a rank that has joined without a device is named to those that bring tensors of one") {
  const auto seen = run_on_ranks(kDevice, 2, [](Rank& self) {
    if (self.rank() == 1) {
      auto join = OperationRef::adopt(new Operation);
      join->request->kind = CollectiveKind::join;
      join->request->name = "join";
      must(self.runtime().submit(join));
      join->wait_until(kNever);
      return join->status();
    }
    std::vector<float> x = {1};
    Status status = self.allreduce(x, {.name = "x"});
    must(self.allreduce(x, {.name = "host", .on_device = false}));
    must(self.join().status());
    return status;
  });
  CHECK(seen[1].is_ok());
  CHECK_THAT(seen[0].message(), Contains("rank 1") && Contains("cuda") && Contains("joined"));
}

TEST_CASE("a rank that joins with a device that is not there takes part with the host") {
  for (const Setup& setup : {kDevice, setup_named("shm")}) {
    const auto seen = run_on_ranks(setup, 2, [](Rank& self) {
      std::vector<float> x = {3};
      if (self.rank() == 0) must(self.allreduce(x, {.name = "x", .on_device = false}));
      auto join = OperationRef::adopt(new Operation);
      join->request->kind = CollectiveKind::join;
      join->request->name = "join";
      join->make_extras().join_device = Device{DeviceType::cuda, 7};
      must(self.runtime().submit(join));
      join->wait_until(kNever);
      must(join->status());
      return x[0];
    });
    CHECK(seen == std::vector{3.0f, 3.0f});  // the average over the ranks that take part
  }
}

TEST_CASE("a device that cannot be opened is told when its first tensor is submitted, and the job goes on") {
  const auto seen = run_on_ranks(kDevice, 2, [](Rank& self) {
    DeviceBuffer memory;
    TensorView elsewhere = on_device(self, memory, {1});
    elsewhere.device.index = 7;
    Status refused = must_fail(self.runtime().submit(allreduce_of(elsewhere, "y")));
    std::vector<float> x = {1};
    must(self.allreduce(x, {.name = "x"}));
    return refused;
  });
  for (const Status& status : seen)
    CHECK_THAT(status.message(), Contains("allreduce 'y'") && Contains("there is no such device"));
}

TEST_CASE("process sets that come and go while batches are under way each have a communicator of their own") {
  const auto wrong = run_on_ranks(kDevice, 4, [](Rank& self) {
    int bad = 0;
    for (int round = 0; round < 10; ++round) {
      const ProcessSetId pair = self.add_process_set({0, 1});
      std::vector<float> all(5, 1.0f);
      auto of_all = self.allreduce_async(all, {.name = "all"});
      std::vector<float> of_pair(3, 1.0f);
      if (self.rank() < 2) must(self.allreduce(of_pair, {.name = "pair", .set = pair}));
      must(of_all.wait());
      must(self.remove_process_set(pair));
      bad += all == std::vector<float>(5, 4.0f) ? 0 : 1;
      bad += of_pair == std::vector<float>(3, self.rank() < 2 ? 2.0f : 1.0f) ? 0 : 1;
    }
    return bad;
  });
  CHECK(wrong == std::vector{0, 0, 0, 0});
}

}  // namespace dabke::test

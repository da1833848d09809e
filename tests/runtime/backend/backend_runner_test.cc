#include "runtime/backend/backend_runner.h"

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

const Status kBroken(Code::timeout, "the other rank is late");

/// Notes its calls, and fails as the test chooses.
class TestBackend final : public Backend {
 public:
  explicit TestBackend(std::string name = "test") : name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  bool can_run(const CallSpec& call, const Extent&) const override { return call.kind != cannot_run; }
  Status prepare(const ProcessSetInfo& set, Device device) override {
    asked.push_back("prepare " + std::to_string(set.id) + " " + device.to_string());
    return prepares ? prepares() : Status();
  }
  void run(const Batch& batch, Completion done) override {
    asked.push_back("run " + std::to_string(batch.order));
    done(runs ? runs(batch) : Status());
  }
  void release(ProcessSetId set, Device device) override {
    asked.push_back("release " + std::to_string(set) + " " + device.to_string());
  }
  void idle() override { asked.push_back("idle"); }
  void abort(const Status& cause) override { asked.push_back("abort " + cause.message()); }

  /// Returns the calls since the last time.
  std::vector<std::string> take_asked() { return std::exchange(asked, {}); }

  CollectiveKind cannot_run = CollectiveKind::join;
  std::function<Status()> prepares;
  std::function<Status(const Batch&)> runs;
  std::vector<std::string> asked;

 private:
  const std::string name_;
};

using Asked = std::vector<std::string>;

const ProcessSetInfo kPair{0, {4, 5}, 1};
const ProcessSetInfo kTriple{7, {1, 4, 5}, 2};
const ProcessSetInfo kSelf{9, {5}, 0};

Batch batch_of(const ProcessSetInfo& set, std::uint64_t order, std::size_t tensors = 0) {
  Batch batch;
  batch.kind = tensors == 0 ? CollectiveKind::barrier : CollectiveKind::allreduce;
  batch.process_set = &set;
  batch.order = order;
  batch.entries.resize(tensors);
  return batch;
}

Batch on_device(Batch batch, std::int32_t index) {
  batch.device_type = DeviceType::cuda;
  batch.device_index = index;
  return batch;
}

}  // namespace

TEST_CASE("a set is prepared before its first batch, once for each backend and device") {
  TestBackend first("first"), second("second");
  first.cannot_run = CollectiveKind::barrier;
  BackendRunner runner({&first, nullptr, &second});
  CHECK(runner.run(batch_of(kPair, 1, 1)).is_ok());
  CHECK(runner.run(batch_of(kPair, 2, 1)).is_ok());
  CHECK(runner.run(batch_of(kTriple, 3, 1)).is_ok());
  CHECK(runner.run(on_device(batch_of(kPair, 4, 1), 0)).is_ok());
  CHECK(runner.run(on_device(batch_of(kPair, 5, 1), 1)).is_ok());
  CHECK(first.take_asked() == Asked{"prepare 0 host", "run 1", "run 2", "prepare 7 host", "run 3",
                                    "prepare 0 cuda:0", "run 4", "prepare 0 cuda:1", "run 5"});
  CHECK(runner.run(batch_of(kPair, 6)).is_ok());
  CHECK(second.take_asked() == Asked{"prepare 0 host", "run 6"});

  runner.release(kPair.id);
  CHECK(first.take_asked() == Asked{"release 0 host", "release 0 cuda:0", "release 0 cuda:1"});
  CHECK(second.take_asked() == Asked{"release 0 host"});
}

TEST_CASE("a set of one reaches no backend: its outputs become its scaled inputs") {
  TestBackend backend;
  BackendRunner runner({&backend});
  const float input[] = {1, 2, 3};
  float output[] = {0, 0, 0};
  Batch batch = batch_of(kSelf, 1);
  batch.kind = CollectiveKind::allreduce;
  batch.prescale = 2;
  batch.entries.push_back({input, output, 3, {}, {}});
  CHECK(runner.choose(batch).is_ok());
  CHECK(runner.run(batch).is_ok());
  CHECK(runner.run(batch_of(kSelf, 2)).is_ok());
  runner.release(kSelf.id);
  CHECK(std::vector<float>(output, output + 3) == std::vector<float>{2, 4, 6});
  CHECK(backend.asked.empty());
}

TEST_CASE("what no backend runs is told with its collective and dtype") {
  TestBackend backend;
  backend.cannot_run = CollectiveKind::allreduce;
  BackendRunner runner({&backend});
  const Status status = runner.run(batch_of(kPair, 1, 1));
  CHECK(status.code() == Code::unsupported);
  CHECK(status.message() == "no backend can run allreduce of float32");
  CHECK(backend.asked.empty());
}

TEST_CASE("a set that failed stays failed with its first cause, and others go on") {
  TestBackend backend;
  BackendRunner runner({&backend});
  CHECK(runner.run(batch_of(kTriple, 1)).is_ok());
  backend.runs = [](const Batch&) { return kBroken; };
  const Status first = runner.run(batch_of(kPair, 2, 3));
  CHECK(first.code() == Code::timeout);
  CHECK(first.message() ==
        "test allreduce of 3 tensors (order 2), rank 1 of 2 in process set 0: the other rank is late");
  CHECK(backend.take_asked() == Asked{"prepare 7 host", "run 1", "prepare 0 host", "run 2"});

  backend.runs = nullptr;
  const Status later = runner.run(batch_of(kPair, 3, 1));
  CHECK(later.code() == first.code());
  CHECK(later.message() == first.message());
  CHECK(backend.asked.empty());
  CHECK(runner.run(batch_of(kTriple, 4)).is_ok());
  CHECK(runner.run(on_device(batch_of(kPair, 5), 0)).is_ok());
  CHECK(backend.take_asked() == Asked{"run 4", "prepare 0 cuda:0", "run 5"});
}

TEST_CASE("release gives back once what was prepared, and lets a set that failed begin anew") {
  TestBackend backend;
  BackendRunner runner({&backend});
  backend.runs = [](const Batch&) { return kBroken; };
  CHECK_FALSE(runner.run(batch_of(kPair, 1)).is_ok());
  backend.runs = nullptr;
  CHECK(backend.take_asked() == Asked{"prepare 0 host", "run 1"});
  runner.release(kPair.id);
  CHECK(backend.take_asked() == Asked{"release 0 host"});
  CHECK(runner.run(batch_of(kPair, 2)).is_ok());
  runner.release(kPair.id);
  runner.release(kPair.id);
  CHECK(backend.take_asked() == Asked{"prepare 0 host", "run 2", "release 0 host"});
}

TEST_CASE("what was prepared inside and between the hosts of a set ends and goes with it, and no other's") {
  TestBackend backend;
  BackendRunner runner({&backend});
  const ProcessSetInfo inside{inside_hosts(kTriple.id), {4, 5}, 1};
  const ProcessSetInfo between{between_hosts(kTriple.id), {1, 5}, 1};
  const ProcessSetInfo of_other{between_hosts(kPair.id), {4, 5}, 1};
  for (const ProcessSetInfo* const set : {&inside, &between, &of_other})
    CHECK(runner.run(batch_of(*set, 1)).is_ok());
  backend.asked.clear();
  runner.end(kTriple.id, kBroken);
  CHECK(runner.run(batch_of(inside, 2)).message() == kBroken.message());
  CHECK(runner.run(batch_of(between, 2)).message() == kBroken.message());
  CHECK(runner.run(batch_of(of_other, 3)).is_ok());
  CHECK(backend.take_asked() == Asked{"run 3"});
  runner.release(kTriple.id);
  CHECK(backend.take_asked() == Asked{"release -16 host", "release -15 host"});
}

TEST_CASE("a set whose prepare failed was never prepared: it is given back, and runs nothing") {
  TestBackend backend;
  BackendRunner runner({&backend});
  SECTION("by an error") {
    backend.prepares = [] { return kBroken; };
  }
  SECTION("by an exception") {
    backend.prepares = []() -> Status { throw std::runtime_error("the other rank is late"); };
  }
  const Status status = runner.run(batch_of(kPair, 1));
  CHECK(status.message() == "test barrier (order 1), rank 1 of 2 in process set 0: the other rank is late");
  backend.prepares = nullptr;
  // Other ranks may have prepared the set successfully, and would not come to a second meeting.
  CHECK(runner.run(batch_of(kPair, 2)).message() == status.message());
  CHECK(backend.take_asked() == Asked{"prepare 0 host", "release 0 host"});
  runner.release(kPair.id);
  CHECK(runner.run(batch_of(kPair, 3)).is_ok());
  CHECK(backend.take_asked() == Asked{"prepare 0 host", "run 3"});
}

TEST_CASE("what a run throws is its error") {
  TestBackend backend;
  BackendRunner runner({&backend});
  backend.runs = [](const Batch&) -> Status { throw std::bad_alloc(); };
  CHECK(runner.run(batch_of(kPair, 1)).code() == Code::out_of_memory);
  CHECK(runner.run(batch_of(kPair, 2)).code() == Code::out_of_memory);
  CHECK(backend.take_asked() == Asked{"prepare 0 host", "run 1"});
}

TEST_CASE("an abort's cause is told bare, and nothing runs after it") {
  TestBackend backend;
  BackendRunner runner({&backend});
  const Status cause(Code::peer_lost, "rank 4 is gone");
  std::string within;  // the error of the run that is aborted
  Code code = Code::peer_lost;
  SECTION("where the run says the cause") { within = "rank 4 is gone"; }
  SECTION("where something stands before it") { within = "connecting to rank 4: rank 4 is gone"; }
  SECTION("where a connection broke by it") {
    code = Code::transport;
    within = "rank 4 closed the connection";
  }
  backend.runs = [&](const Batch&) {
    runner.abort(cause);
    runner.abort({Code::aborted, "a later cause"});
    return Status(code, within);
  };
  const Status status = runner.run(batch_of(kPair, 1));
  CHECK(status.code() == cause.code());
  CHECK(status.message() == cause.message());
  backend.asked.clear();
  CHECK(runner.run(batch_of(kPair, 2)).message() == cause.message());
  CHECK(runner.run(batch_of(kTriple, 3)).message() == cause.message());
  CHECK(runner.run(batch_of(kSelf, 4)).message() == cause.message());
  CHECK(backend.asked.empty());
}

TEST_CASE("what a run has found out before the abort is told as its own") {
  TestBackend backend;
  BackendRunner runner({&backend});
  backend.runs = [&](const Batch&) {
    runner.abort({Code::aborted, "enough"});
    return kBroken;
  };
  CHECK(runner.run(batch_of(kPair, 1)).message() ==
        "test barrier (order 1), rank 1 of 2 in process set 0: the other rank is late");
}

TEST_CASE(
    "a backend that is put together from others says once what the batch was, and which of them failed") {
  TestBackend inner("inner"), outer("outer");
  BackendRunner parts({&inner}, BackendRunner::ErrorPrefix::backend);
  BackendRunner runner({&outer});
  outer.runs = [&](const Batch& batch) { return parts.run(batch_of(kTriple, batch.order, 1)); };
  SECTION("by itself") {
    inner.runs = [](const Batch&) { return kBroken; };
    CHECK(runner.run(batch_of(kPair, 1)).message() ==
          "outer barrier (order 1), rank 1 of 2 in process set 0: inner: the other rank is late");
  }
  SECTION("by an abort") {
    inner.runs = [&](const Batch&) {
      runner.abort({Code::aborted, "enough"});
      parts.abort({Code::aborted, "enough"});
      return Status(Code::transport, "the connection is gone");
    };
    CHECK(runner.run(batch_of(kPair, 1)).message() == "enough");
  }
}

}  // namespace dabke::test

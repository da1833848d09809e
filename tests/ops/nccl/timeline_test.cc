// The timeline of batches on a device, on the doubles. Its times are those of the device.
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/timeline/event_names.h"
#include "runtime/timeline/joining/record_file.h"
#include "tests/ops/nccl/program_tensors.h"
#include "tests/ops/nccl/session.h"
#include "tests/temporary_directory.h"

namespace dabke::test {
namespace {

using fake_cuda::Gate;
using fake_cuda::Stream;
using std::chrono::milliseconds;

std::int64_t now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }
std::int64_t ns(milliseconds time) { return std::chrono::nanoseconds(time).count(); }

/// The records of rank 0 about a batch of one tensor.
struct Told {
  struct Step {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::string name;
  };
  std::map<timeline::Record::What, std::vector<Step>> steps;
  const Step& only(timeline::Record::What what) {
    if (steps[what].size() != 1) throw std::runtime_error("not one step of this kind");
    return steps[what].front();
  }
};

/// Runs a job of two ranks with a timeline of records. Returns the records of each tensor.
template <class Function>
std::map<std::string, Told> record(Function&& function) {
  const TemporaryDirectory folder;
  Config config = quiet_config();
  config.timeline = folder / "trace.json";
  config.timeline_format = TimelineFormat::records;
  config.fusion_threshold = 0;  // a batch for each tensor
  run_on_ranks(setup_named("nccl"), 2, config, function);
  timeline::RecordFile file = must(timeline::RecordFile::open(config.timeline + ".rank0"));
  std::map<std::string, Told> told;
  std::map<std::uint64_t, std::string> batches;
  std::vector<timeline::Record> records;
  while (must(file.next(records))) {
    for (const timeline::Record& one : records) {
      if (one.what == timeline::Record::What::order)
        batches[one.batch] = file.name(timeline::NameKind::tensor, one.name);
      const bool is_step = one.what == timeline::Record::What::run || timeline::event_of(one.what);
      if (!is_step || !batches.contains(one.batch)) continue;
      auto& steps = told[batches[one.batch]].steps[one.what];
      if (!one.is_end()) {
        const bool is_run = one.what == timeline::Record::What::run && one.name != 0;
        steps.push_back(
            {one.time_ns, 0, is_run ? std::string(file.name(timeline::NameKind::text, one.name)) : ""});
      } else {
        steps.back().end_ns = one.time_ns;
      }
    }
  }
  return told;
}

/// The expectations that do not hold; empty if all hold.
using Wrong = std::vector<std::string>;
void expect(Wrong& wrong, bool is_so, const char* what) {
  if (!is_so) wrong.emplace_back(what);
}

/// Returns what is wrong in each of several tries. On a busy machine, the clocks of host and device are not
/// always compared. A time is then the moment when the host has polled.
Wrong wrong_each_time(const std::function<Wrong()>& try_once) {
  Wrong wrong;
  for (int attempt = 0; attempt < 10; ++attempt) {
    wrong = try_once();
    if (wrong.empty()) break;
  }
  return wrong;
}

Wrong wrong_of_waits() {
  std::int64_t opened_ns = 0;
  auto told = record([&](Rank& self) {
    const Stream stream(self.rank());
    const Tensor late(self, 5), behind(self, 5);
    Gate gate;
    gate.hold(stream);
    const auto first = sum_of(late.view(), "late", {.stream = stream.handle()});
    const auto second = sum_of(behind.view(), "behind");
    must(self.runtime().submit(first));
    must(self.runtime().submit(second));
    second->wait_until_enqueued(kNever);  // the host has done its part
    must(self.barrier());
    if (self.rank() == 0) opened_ns = now_ns();
    gate.open();
    finish(first);
    finish(second);
  });
  Told& late = told["late"];
  Told& behind = told["behind"];
  Wrong wrong;
  const auto& wait = late.only(timeline::Record::What::wait_for_data);
  expect(wrong, wait.begin_ns < opened_ns, "the wait for data begins before the data are there");
  expect(wrong, wait.end_ns > opened_ns, "the wait for data ends when they are there");
  const auto& run = late.only(timeline::Record::What::run);
  expect(wrong, run.name == "NCCL_ALLREDUCE", "the run is called NCCL_ALLREDUCE");
  expect(wrong, run.begin_ns >= wait.end_ns, "the run begins after the wait");
  expect(wrong, behind.steps[timeline::Record::What::wait_for_data].empty(),
         "what is behind it waits for no data");
  if (behind.steps[timeline::Record::What::queue].size() != 2)
    return {"two queues, the lane's and the device's"};
  const auto& queue = behind.steps[timeline::Record::What::queue].back();
  expect(wrong, queue.begin_ns < opened_ns, "the queue begins before the data of the first are there");
  expect(wrong, queue.end_ns >= run.end_ns, "the queue ends after the first's run");
  expect(wrong, behind.only(timeline::Record::What::run).begin_ns >= queue.end_ns,
         "the second run begins after it");
  return wrong;
}

Wrong wrong_of_a_slow_one() {
  constexpr milliseconds kTakes(150), kElsewhere(100);
  const Planned plan("ncclAllReduce 0 31 takes=150");
  std::int64_t looked_ns = 0;
  auto told = record([&](Rank& self) {
    const Stream stream(self.rank());
    const Tensor slow(self, 5), rows(self, 5);
    std::vector<float> x(5, 1);
    for (int i = 0; i < 30; ++i)
      must(self.allreduce(x));  // on a busy machine, the clocks are not compared at once
    const auto first = sum_of(slow.view(), "slow");
    must(self.runtime().submit(first));
    first->wait_until_enqueued(kNever);
    std::promise<void> ended;
    if (const auto end = first->end_on_device()) must(end->hold_back({stream.handle()}));
    stream.enqueue([&] { ended.set_value(); });
    // The lane's thread asks for this output.
    const auto second = sum_of(rows.view(), "rows", {}, CollectiveKind::allgather);
    second->make_extras().allocate = [&, has_ended = ended.get_future().share()](std::size_t,
                                                                                 const auto& output) {
      has_ended.wait();
      std::this_thread::sleep_for(kElsewhere);
      if (self.rank() == 0) looked_ns = now_ns();
      return allocate_on_double(self.rank(), output.size_bytes());
    };
    must(self.runtime().submit(second));
    finish(first);
    finish(second);
  });
  const auto& run = told["slow"].only(timeline::Record::What::run);
  Wrong wrong;
  expect(wrong, run.end_ns - run.begin_ns >= ns(kTakes), "the run lasts as long as it takes");
  expect(wrong, run.end_ns <= looked_ns - ns(kElsewhere) / 2, "it ends while the host is elsewhere");
  return wrong;
}

Wrong wrong_of_copies() {
  const Planned plan("ncclAllReduce 0 1 takes=50");
  auto told = record([&](Rank& self) {
    // The average travels in a wider dtype, so even a single tensor is packed.
    std::vector<std::int8_t> narrow(1000, 3);
    must(self.allreduce(narrow, {.name = "narrow", .op = ReduceOp::average}));
  });
  Told& narrow = told["narrow"];
  const auto& run = narrow.only(timeline::Record::What::run);
  const auto& pack = narrow.only(timeline::Record::What::pack);
  const auto& unpack = narrow.only(timeline::Record::What::unpack);
  Wrong wrong;
  expect(wrong, pack.end_ns <= run.begin_ns, "the copy into the buffer ends before the run");
  expect(wrong, run.end_ns - run.begin_ns >= ns(milliseconds(50)), "the run lasts as long as it takes");
  expect(wrong, unpack.begin_ns >= run.end_ns, "the copy out of the buffer begins after the run");
  return wrong;
}

}  // namespace

TEST_CASE("a batch on a device waits for its data, then runs, and what is behind it waits in the queue") {
  CHECK(wrong_each_time(wrong_of_waits) == Wrong{});
}

TEST_CASE("a collective lasts as long as the device works on it, wherever the host is meanwhile") {
  CHECK(wrong_each_time(wrong_of_a_slow_one) == Wrong{});
}

TEST_CASE("copies into and out of the fusion buffer lie before and behind the collective on a device") {
  CHECK(wrong_each_time(wrong_of_copies) == Wrong{});
}

TEST_CASE("what a device's clock says is the host's time, also where it goes at another speed") {
  // Fewer ms than the clocks drift apart in 0.4 s, but more than in two lifetimes of an anchor.
  constexpr milliseconds kApart(400), kWrong(130);
  const auto rate = fake_cuda::function<void(double)>("fake_cuda_clock_rate");
  rate(1.5);
  const auto stream = must(session().open(Device{DeviceType::cuda, 0}));
  /// True if an event that the stream reaches from now on has the right time.
  const auto is_right = [&](const std::shared_ptr<DeviceEvent>& event) {
    const std::int64_t before = now_ns();
    while (!must(event->is_reached())) std::this_thread::yield();
    const auto at = event->reached_at();
    const std::int64_t told = at ? std::chrono::nanoseconds(at->time_since_epoch()).count() : 0;
    return told >= before - ns(kWrong) && told <= now_ns() + ns(kWrong);
  };
  // A busy machine does not always compare the clocks in time.
  const auto is_right_soon = [](const std::function<bool()>& is_right_now) {
    bool is = false;
    for (const auto until = Clock::now() + std::chrono::seconds(30); !is && Clock::now() < until;)
      is = is_right_now();
    return is;
  };
  const auto one_at_once = [&] { return is_right(must(stream->record_with_time())); };
  const bool at_first = is_right_soon(one_at_once);
  std::this_thread::sleep_for(kApart);
  const bool later = is_right_soon(one_at_once);
  const bool awaited = is_right_soon([&] {
    const Stream program(0);
    Gate gate;
    gate.hold(program);
    must(stream->wait_for(must(stream->point_behind({program.handle()}))));
    const auto held = must(stream->record_with_time());
    for (const auto until = Clock::now() + kApart; Clock::now() < until;) must(held->is_reached());
    gate.open();
    return is_right(held);
  });
  rate(1);
  CHECK(at_first);
  CHECK(later);
  CHECK(awaited);
}

TEST_CASE("where no timeline is recorded no event with a time is recorded") {
  const auto recorded = fake_cuda::function<std::uint64_t()>("fake_cuda_timed_events");
  const std::uint64_t before = recorded();
  run_on_ranks(setup_named("nccl"), 2, [](Rank& self) {
    std::vector<float> x(5, 1);
    for (int i = 0; i < 20; ++i) must(self.allreduce(x));
  });
  CHECK(recorded() == before);
}

}  // namespace dabke::test

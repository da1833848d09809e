#include <sys/resource.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/runtime/timeline/trace.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using test::Json;

constexpr int kRecords = 9;
/// The whole life of one tensor, in kRecords records.
void live(timeline::Timeline& timeline, timeline::Timeline::TensorId id, int i) {
  test::negotiate_start(timeline, id, CollectiveKind::allreduce);
  test::rank_ready(timeline, id, i);
  test::negotiate_end(timeline, id);
  test::op_start(timeline, {&id, 1}, CollectiveKind::allreduce);
  test::activity_start(timeline, std::span(&id, 1), "QUEUE");
  test::activity_end(timeline, std::span(&id, 1));
  test::activity_start(timeline, std::span(&id, 1), "GLOO_ALLREDUCE");
  test::activity_end(timeline, std::span(&id, 1));
  if (i % 10 == 0) return test::op_error(timeline, id, Status(Code::timeout, "late"));
  test::op_end(timeline, id, DType::f32, i % 7 == 0 ? Shape{1, 1, 1, 1, 1, 1, 1, 1, i} : Shape{i, 2});
}

TEST_CASE("many threads record at once and nothing is lost, torn or misnested") {
  constexpr int kThreads = 6;
  constexpr int kLives = 1000;
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  {
    const auto timeline = test::must_open({.path = path, .mark_cycles = true});
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&timeline, t] {
        for (int i = 0; i < kLives; ++i) {
          const auto name = std::to_string(t) + "." + std::to_string(i % 20);
          live(*timeline, timeline->tensor(name), i);
          timeline->mark_cycle();
          test::rank_ready(*timeline, timeline->tensor("of all threads"), t);
        }
      });
    }
  }
  const Json trace = test::read_trace(path);
  CHECK(test::nesting_fault(trace) == "");
  CHECK(test::totals_of(trace) == Json{{"records", kThreads * kLives * (kRecords + 2)}, {"lost", 0}});
  std::size_t errors = 0;
  std::set<std::string> names;
  for (const Json& event : trace) {
    const std::string name = event.value("name", "");
    errors += name == "ERROR";
    if (name == "process_name" && event["pid"] != 0) names.insert(event["args"]["name"].get<std::string>());
  }
  CHECK(errors == kThreads * kLives / 10);
  CHECK(names.size() == kThreads * 20 + 1);
}

TEST_CASE("threads that record about the same tensor cannot misnest it") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  {
    const auto timeline = test::must_open({.path = path});
    const auto id = timeline->tensor("x");
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) live(*timeline, id, i);
      });
    }
  }
  CHECK(test::nesting_fault(test::read_trace(path)) == "");
}

TEST_CASE("a full queue loses records, counts them, marks the gap, and tears nothing") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  constexpr std::uint64_t kLives = 20'000;
  {
    const auto timeline = test::must_open({.path = path, .queue_records = 64});
    const auto id = timeline->tensor("x");
    for (std::uint64_t i = 0; i < kLives; ++i) live(*timeline, id, static_cast<int>(i));
  }
  const Json trace = test::read_trace(path);
  CHECK(test::nesting_fault(trace) == "");
  const Json totals = test::totals_of(trace);
  const std::uint64_t lost = totals["lost"];
  CHECK(lost > 0);
  CHECK(totals["records"].get<std::uint64_t>() + lost == kLives * kRecords);
  std::uint64_t marked = 0;
  for (const Json& event : trace) {
    if (event.value("name", "") == "RECORDS_LOST") marked += event["args"]["count"].get<std::uint64_t>();
  }
  CHECK(marked > 0);
  CHECK(marked <= lost);
}

TEST_CASE("close while others record ends, and leaves a valid file") {
  for (int round = 0; round < 20; ++round) {
    test::TemporaryDirectory folder;
    const std::string path = folder / "trace.json";
    const auto timeline = test::must_open({.path = path, .queue_records = 1024});
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&timeline, t](const std::stop_token& stop) {
        const auto id = timeline->tensor("x" + std::to_string(t));
        for (int i = 0; !stop.stop_requested(); ++i) live(*timeline, id, i);
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));
    const Status status = timeline->close();
    threads.clear();
    REQUIRE(status.is_ok());
    REQUIRE(test::nesting_fault(test::read_trace(path)) == "");
  }
}

/// The value of a line in /proc/self/task/N/status, for the writer's thread.
std::string writer_status(const std::string& key) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "status");
    bool is_writer = false;
    for (std::string line; std::getline(in, line);) {
      if (line == "Name:\tdabke-timeline") is_writer = true;
      if (is_writer && line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
    }
  }
  return "";
}

TEST_CASE("an idle timeline makes no wake-ups") {
  test::TemporaryDirectory folder;
  const auto timeline = test::must_open({.path = folder / "trace.json"});
  const auto switches = [] { return writer_status("voluntary_ctxt_switches"); };
  test::rank_ready(*timeline, timeline->tensor("x"), 0);
  // The writer is idle once it has not switched for many naps. A stopped
  // thread also wakes, but not every time.
  const auto sleeps = [] { return writer_status("State").starts_with('S'); };
  std::string before = switches();
  bool idle = false;
  for (int i = 0; i < 50 && !idle; ++i) {
    std::this_thread::sleep_for(500ms);
    const std::string now = switches();
    idle = !now.empty() && now == before && sleeps();
    before = now;
  }
  CHECK(idle);
}

TEST_CASE("the writer thread blocks every signal that can be blocked") {
  test::TemporaryDirectory folder;
  const auto timeline = test::must_open({.path = folder / "trace.json"});
  std::string blocked;
  for (int i = 0; i < 20'000 && blocked.empty(); ++i) {
    std::this_thread::sleep_for(1ms);  // until the thread has set its name
    blocked = writer_status("SigBlk");
  }
  REQUIRE_FALSE(blocked.empty());
  const std::uint64_t mask = std::stoull(blocked, nullptr, 16);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE, SIGXFSZ, SIGPROF, SIGALRM}) {
    CHECK((mask >> (signal - 1) & 1) == 1);
  }
  sigset_t mine;
  sigemptyset(&mine);
  pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  CHECK(sigismember(&mine, SIGTERM) == 0);
}

}  // namespace
}  // namespace dabke::test

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/patience.h"
#include "tests/runtime/timeline/trace.h"

namespace dabke::test {
namespace {

using test::Json;
using Lines = std::vector<std::string>;

/// The content of the file after `record` has recorded.
template <class Record>
Json trace_of(Record record, timeline::Timeline::Options options = {}) {
  test::TemporaryDirectory folder;
  options.path = folder / "trace.json";
  const auto timeline = test::must_open(options);
  record(*timeline);
  if (const Status status = timeline->close(); !status.is_ok()) throw std::runtime_error(status.message());
  return test::read_trace(options.path);
}

void negotiate(timeline::Timeline& timeline, timeline::Timeline::TensorId id,
               CollectiveKind kind = CollectiveKind::allreduce) {
  test::negotiate_start(timeline, id, kind);
  test::rank_ready(timeline, id, 0);
  test::rank_ready(timeline, id, 1);
  test::negotiate_end(timeline, id);
}

TEST_CASE("the life of a tensor is written with the names and fields that Horovod's users know") {
  const Json trace = trace_of([](timeline::Timeline& timeline) {
    const auto id = timeline.tensor("allreduce.fc.w");
    negotiate(timeline, id);
    test::op_start(timeline, {&id, 1}, CollectiveKind::allreduce);
    for (const char* activity : {"QUEUE", "MEMCPY_IN_FUSION_BUFFER", "GLOO_ALLREDUCE"}) {
      test::activity_start(timeline, std::span(&id, 1), activity);
      test::activity_end(timeline, std::span(&id, 1));
    }
    test::op_end(timeline, id, DType::f32, Shape{2, 3});
  });
  CHECK(test::outline_of(trace, 1) == Lines{"B NEGOTIATE_ALLREDUCE", "X 0", "X 1", "E", "B ALLREDUCE",
                                            "B QUEUE", "E", "B MEMCPY_IN_FUSION_BUFFER", "E",
                                            "B GLOO_ALLREDUCE", "E", "E"});
  CHECK(test::nesting_fault(trace) == "");
  const auto events = test::events_of(trace, 1);
  CHECK(events.back()["args"] == Json{{"dtype", "float32"}, {"shape", "[2, 3]"}, {"bytes", 24}});
  CHECK(events[1]["dur"] == 0);
  for (const Json& event : events) {
    CHECK(event["ts"].is_number());
    CHECK_FALSE(event.contains("tid"));
    CHECK(event.contains("name") == (event["ph"] != "E"));
  }
}

TEST_CASE("what a batch of many tensors does is written for each of them, at the same time") {
  constexpr int kTensors = 20;
  const Json trace = trace_of([](timeline::Timeline& timeline) {
    std::vector<timeline::Timeline::TensorId> ids;
    for (int i = 0; i < kTensors; ++i) {
      ids.push_back(timeline.tensor("tensor " + std::to_string(i)));
      negotiate(timeline, ids.back());
    }
    test::op_start(timeline, ids, CollectiveKind::allgather);
    test::activity_start(timeline, ids, "QUEUE");
    test::activity_end(timeline, ids);
    for (const auto id : ids) test::op_end(timeline, id, DType::f32, Shape{1}, ids.front());
    // A second batch, in another order.
    std::ranges::reverse(ids);
    for (int i = 0; i < kTensors; ++i) {
      CHECK(timeline.tensor("tensor " + std::to_string(kTensors - 1 - i)) ==
            ids[static_cast<std::size_t>(i)]);
    }
    test::op_start(timeline, ids, CollectiveKind::allreduce);
    for (const auto id : ids) test::op_end(timeline, id, DType::f32, Shape{1}, ids.front());
  });
  CHECK(test::nesting_fault(trace) == "");
  std::set<double> starts;
  for (int pid = 1; pid <= kTensors; ++pid) {
    CHECK(test::outline_of(trace, pid) == Lines{"B NEGOTIATE_ALLREDUCE", "X 0", "X 1", "E", "B ALLGATHER",
                                                "B QUEUE", "E", "E", "B ALLREDUCE", "E"});
    starts.insert(test::events_of(trace, pid)[5]["ts"].get<double>());
  }
  CHECK(starts.size() == 1);
}

TEST_CASE("every tensor gets a pid, with its name and its place, in the order the names came") {
  const Json trace = trace_of([](timeline::Timeline& timeline) {
    CHECK(timeline.tensor("b") == 1);
    CHECK(timeline.tensor("a") == 2);
    CHECK(timeline.tensor("b") == 1);
    negotiate(timeline, 2);
  });
  std::vector<Json> metadata;
  for (const Json& event : trace) {
    if (event["ph"] == "M" && event["pid"] != 0) metadata.push_back(event);
  }
  const auto row = [](const char* what, int pid, Json args) {
    return Json{{"name", what}, {"ph", "M"}, {"pid", pid}, {"args", std::move(args)}};
  };
  CHECK(metadata == std::vector{row("process_name", 1, {{"name", "b"}}),
                                row("process_sort_index", 1, {{"sort_index", 1}}),
                                row("process_name", 2, {{"name", "a"}}),
                                row("process_sort_index", 2, {{"sort_index", 2}})});
  CHECK(test::outline_of(trace, 2).size() == 4);
}

TEST_CASE("every collective has its names") {
  const auto kind = GENERATE(CollectiveKind::allreduce, CollectiveKind::allgather, CollectiveKind::broadcast,
                             CollectiveKind::alltoall, CollectiveKind::reducescatter);
  const std::string name(timeline_name_of(kind));
  const Json trace = trace_of([kind](timeline::Timeline& timeline) {
    const auto id = timeline.tensor("x");
    negotiate(timeline, id, kind);
    test::op_start(timeline, {&id, 1}, kind);
    test::op_end(timeline, id, DType::bf16, Shape{});
  });
  CHECK(test::outline_of(trace, 1) == Lines{"B NEGOTIATE_" + name, "X 0", "X 1", "E", "B " + name, "E"});
  CHECK(test::events_of(trace, 1).back()["args"] ==
        Json{{"dtype", "bfloat16"}, {"shape", "[]"}, {"bytes", 2}});
}

TEST_CASE("shapes of many and of huge dimensions are kept") {
  const Json trace = trace_of([](timeline::Timeline& timeline) {
    const auto id = timeline.tensor("x");
    for (const Shape& shape :
         {Shape{1, 2, 3, 4, 5, 6, 7, 8}, Shape{1, 2, 1, 2, 1, 2, 1, 2, 1}, Shape{0, 5'000'000'000}}) {
      test::op_start(timeline, {&id, 1}, CollectiveKind::allreduce);
      test::op_end(timeline, id, DType::u8, shape);
    }
  });
  std::vector<std::string> shapes;
  for (const Json& event : test::events_of(trace, 1)) {
    if (event["ph"] == "E") shapes.push_back(event["args"]["shape"]);
  }
  CHECK(shapes == Lines{"[1, 2, 3, 4, 5, 6, 7, 8]", "[1, 2, 1, 2, 1, 2, 1, 2, 1]", "[0, 5000000000]"});
}

TEST_CASE("an error ends what is open and is shown with its text") {
  const Json trace = trace_of([](timeline::Timeline& timeline) {
    const auto id = timeline.tensor("x");
    test::negotiate_start(timeline, id, CollectiveKind::broadcast);
    test::op_error(timeline, id, Status(Code::mismatch, "broadcast 'x': root 0\nand \"1\""));
    test::op_start(timeline, {&id, 1}, CollectiveKind::broadcast);
    test::activity_start(timeline, std::span(&id, 1), "GLOO_BCAST");
    test::op_error(timeline, id, Status(Code::peer_lost, "rank 1 is gone"));
  });
  CHECK(test::outline_of(trace, 1) == Lines{"B NEGOTIATE_BROADCAST", "E", "B ERROR", "E", "B BROADCAST",
                                            "B GLOO_BCAST", "E", "E", "B ERROR", "E"});
  const auto events = test::events_of(trace, 1);
  CHECK(events[2]["args"] == Json{{"code", "mismatch"}, {"error", "broadcast 'x': root 0\nand \"1\""}});
  CHECK(events[8]["args"]["error"] == "rank 1 is gone");
  CHECK(test::nesting_fault(trace) == "");
}

TEST_CASE("a negotiation that begins before the operation has ended is drawn after it") {
  const Json trace = trace_of([](timeline::Timeline& timeline) {
    const auto id = timeline.tensor("x");
    test::op_start(timeline, {&id, 1}, CollectiveKind::allreduce);
    test::activity_start(timeline, std::span(&id, 1), "GLOO_ALLREDUCE");
    test::negotiate_start(timeline, id, CollectiveKind::allreduce);
    test::rank_ready(timeline, id, 1);
    test::activity_end(timeline, std::span(&id, 1));
    test::op_end(timeline, id, DType::f32, Shape{1});
    test::rank_ready(timeline, id, 0);
    test::negotiate_end(timeline, id);
    test::op_start(timeline, {&id, 1}, CollectiveKind::allreduce);
    negotiate(timeline, id);  // complete before the end of the operation
    test::op_end(timeline, id, DType::f32, Shape{1});
  });
  CHECK(test::outline_of(trace, 1) == Lines{"B ALLREDUCE", "B GLOO_ALLREDUCE", "X 1", "E", "E",  //
                                            "B NEGOTIATE_ALLREDUCE", "X 0", "E", "B ALLREDUCE", "X 0", "X 1",
                                            "E", "B NEGOTIATE_ALLREDUCE", "E"});
  CHECK(test::nesting_fault(trace) == "");
}

TEST_CASE("what is still open at the end is closed and marked as unfinished") {
  const Json trace = trace_of([](timeline::Timeline& timeline) {
    test::negotiate_start(timeline, timeline.tensor("stalled"), CollectiveKind::allreduce);
    const auto id = timeline.tensor("running");
    test::op_start(timeline, {&id, 1}, CollectiveKind::allreduce);
    test::activity_start(timeline, std::span(&id, 1), "GLOO_ALLREDUCE");
    test::negotiate_start(timeline, id, CollectiveKind::allreduce);
  });
  CHECK(test::nesting_fault(trace) == "");
  CHECK(test::events_of(trace, 1).back()["args"]["unfinished"] == true);
  CHECK(test::outline_of(trace, 2) ==
        Lines{"B ALLREDUCE", "B GLOO_ALLREDUCE", "E", "E", "B NEGOTIATE_ALLREDUCE", "E"});
}

TEST_CASE("records in any order, of any tensor, give proper nesting") {
  const auto seed = GENERATE(range(1u, test::kSanitized ? 8u : 40u));
  const Json trace = trace_of([seed](timeline::Timeline& timeline) {
    timeline.tensor("x");
    timeline.tensor("y");
    std::uint32_t state = seed * 2654435761u;
    const auto random = [&state](std::uint32_t below) {
      state = state * 1664525u + 1013904223u;
      return (state >> 16) % below;
    };
    for (int i = 0; i < 400; ++i) {
      const timeline::Timeline::TensorId id = random(4);  // 0 and 3 are not tensors
      switch (random(8)) {
        case 0: test::negotiate_start(timeline, id, CollectiveKind::allreduce); break;
        case 1: test::rank_ready(timeline, id, static_cast<int>(random(9))); break;
        case 2: test::negotiate_end(timeline, id); break;
        case 3: test::op_start(timeline, {&id, 1}, CollectiveKind::alltoall); break;
        case 4: test::activity_start(timeline, std::span(&id, 1), "QUEUE"); break;
        case 5: test::activity_end(timeline, std::span(&id, 1)); break;
        case 6: test::op_end(timeline, id, DType::f16, Shape{i, 2}); break;
        case 7: test::op_error(timeline, id, Status(Code::timeout, "too late")); break;
      }
    }
  });
  CHECK(test::nesting_fault(trace) == "");
  CHECK(test::totals_of(trace) == Json{{"records", 400}, {"lost", 0}});
}

TEST_CASE("cycles are marked only when that is asked for") {
  const bool mark = GENERATE(true, false);
  const Json trace =
      trace_of([](timeline::Timeline& timeline) { timeline.mark_cycle(); }, {.mark_cycles = mark});
  const auto events = test::events_of(trace, 0);
  REQUIRE(events.size() == (mark ? 1 : 0));
  if (mark) {
    CHECK(events[0]["ph"] == "i");
    CHECK(events[0]["name"] == "CYCLE_START");
    CHECK(events[0]["s"] == "g");
  }
}

}  // namespace
}  // namespace dabke::test

// The report of a trace of Dabke with profiles of its ranks. The tests write both, so every time is known.
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/runtime/timeline/job.h"
#include "timeline_viewer/report_text.h"
#include "timeline_viewer/trace_analysis.h"

namespace dabke::test {
namespace {

using Catch::Contains;

constexpr int kSteps = 6;
constexpr std::int64_t kStepUs = 10'000;

/// In each step, both ranks reduce two tensors of 4 MB. Rank 1 submits the second one 2 ms late. The batches
/// are in progress from 1,010 to 3,000 us and from 6,010 to 8,000 us of the step.
std::string trace_of_job(const TemporaryDirectory& place, int ranks = 2) {
  const std::string base = place / "trace.json";
  for (Rank rank = 0; rank < ranks; ++rank) {
    Writer writer(base, rank, ranks);
    for (int step = 0; step < kSteps; ++step) {
      const std::int64_t at = 100 + kStepUs * step;
      const auto order = static_cast<std::uint64_t>(2 * step + 1);
      writer.submit(at + 1000, "first", 4'000'000);
      writer.run(at + 1000, at + 3000, order, {"first"}, 4'000'000);
      writer.submit(at + (rank == 1 ? 6000 : 4000), "second", 4'000'000);
      writer.run(at + 6000, at + 8000, order + 1, {"second"}, 4'000'000);
    }
  }
  (void)merged(base, base);
  return base;
}

std::int64_t base_time_ns(const std::string& trace) {
  return read_trace(trace)["baseTimeNanoseconds"].get<std::int64_t>();
}

struct Profiler {
  int rank = 0;
  std::optional<std::int64_t> base_time_ns;
  double zero_us = 0;  // the `ts` of the trace's zero
  int size = 2;
  int from_step = 0, to_step = kSteps;
  bool has_steps = true;
};

/// A profile of a rank of the job. The rank computes in the first 2,010 us of each step, and from 5,000 to
/// 5,500 us. So it hides about a half of the first batch.
std::string profile_of(const TemporaryDirectory& place, const Profiler& wanted) {
  const std::string path = place / fmt::format("profile{}.json", wanted.rank);
  std::string text =
      fmt::format(R"({{"distributedInfo": {{"rank": {}, "world_size": {}}},)", wanted.rank, wanted.size);
  if (wanted.base_time_ns) text += fmt::format(R"("baseTimeNanoseconds": {},)", *wanted.base_time_ns);
  text += R"("traceEvents": [)";
  const auto event = [&](const char* category, const std::string& name, double at_us, double length_us) {
    text += fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":7,"ts":{:.3f},"dur":{}}},)",
                        category, name, wanted.zero_us + at_us, length_us) +
            "\n";
  };
  for (int step = wanted.from_step; step < wanted.to_step; ++step) {
    const auto at = static_cast<double>(kStepUs * step);
    if (wanted.has_steps) event("user_annotation", fmt::format("ProfilerStep#{}", step), at, kStepUs);
    event("cpu_op", "aten::mm", at, 2010);
    event("cpu_op", "aten::add", at + 5000, 500);
    event("cpu_op", "dabke:all_reduce", at + 1000, 9000);
  }
  text.resize(text.size() - 2);
  std::ofstream(path) << text << "]}";
  return path;
}

timeline::TraceReport must_report(const std::vector<std::string>& paths) {
  auto report = viewer::report_of_traces(paths);
  if (!report) throw std::runtime_error(report.status().message());
  return report.take();
}

std::string error_of(const std::vector<std::string>& paths) {
  const auto report = viewer::report_of_traces(paths);
  return report ? "" : report.status().message();
}

}  // namespace

TEST_CASE("profiles beside Dabke's trace show how much of the communication each rank hides in each step") {
  const TemporaryDirectory place;
  const std::string trace = trace_of_job(place);
  // The first record of the trace is 1,100 us after the first step's begin.
  const std::int64_t base_ns = base_time_ns(trace) - 1'000'000;
  const bool is_old = GENERATE(false, true);
  // Older profiles have the time of day in every event.
  const auto with = [&](int rank) {
    if (!is_old) return Profiler{.rank = rank, .base_time_ns = base_ns - 7'000'000'000, .zero_us = 7e6};
    return Profiler{.rank = rank, .zero_us = static_cast<double>(base_ns) / 1e3};
  };
  const auto report = must_report({profile_of(place, with(1)), trace, profile_of(place, with(0))});
  CAPTURE(json_of(report));
  REQUIRE(report.profiled);
  CHECK(report.ranks == std::vector{0, 1});
  CHECK(report.profiled->ranks == std::vector{0, 1});
  CHECK(report.steps.size() == kSteps);
  CHECK(report.steps_are == "of the profiles");
  REQUIRE(report.profiled->overlap.size() == 2 * kSteps);
  for (int step = 0; step < kSteps; ++step) {
    for (const int rank : {0, 1}) {
      const auto& one = report.profiled->overlap[static_cast<std::size_t>(2 * step + rank)];
      CHECK(one.step == static_cast<std::uint64_t>(step));
      CHECK(one.rank == rank);
      CHECK(one.bytes == 8'000'000);
      CHECK(one.bus_bandwidth_mb_s == Approx(8e6 / (2 * 1990)).epsilon(0.01));
      CHECK(one.communication_us == Approx(2 * 1990).margin(1));
      CHECK(one.hidden_us == Approx(1000).margin(1));
      // Rank 0 waits 2,000 us for the second tensor of rank 1, and computes for 500 us of these.
      CHECK(one.exposed_us == Approx(rank == 0 ? 990 + 1500 + 2000 : 990 + 2000).margin(1));
      CHECK(one.late_us == Approx(rank == 0 ? 1500 : 0).margin(1));
    }
  }
  REQUIRE(report.profiled->tensors.size() == 2);
  CHECK(report.profiled->tensors[0].name == "second");
  CHECK(report.profiled->tensors[0].exposed_us == Approx(1990).margin(1));
  CHECK(report.profiled->tensors[1].name == "first");
  CHECK(report.profiled->tensors[1].exposed_us == Approx(990).margin(1));
  CHECK(report.cost.front().rank == 1);
  CHECK(report.cost.front().caused_median_us == Approx(1500).margin(1));
  CHECK_THAT(viewer::text_of(report),
             Contains("Communication and computation of each rank (mean of a step") &&
                 Contains("The most exposed steps") && Contains("The most exposed tensors"));
}

TEST_CASE("the figures cover only steps that all profiles have, and a rank without a profile is named") {
  const TemporaryDirectory place;
  const std::string trace = trace_of_job(place);
  const std::int64_t base_ns = base_time_ns(trace) - 1'000'000;
  const std::string few =
      profile_of(place, {.rank = 0, .base_time_ns = base_ns, .from_step = 2, .to_step = 5});
  const std::string most =
      profile_of(place, {.rank = 1, .base_time_ns = base_ns, .from_step = 1, .to_step = 5});
  const auto both = must_report({trace, few, most});
  REQUIRE(both.profiled);
  CHECK(both.steps.size() == 3);
  CHECK(both.profiled->overlap.front().step == 2);
  const auto one = must_report({trace, most});
  REQUIRE(one.profiled);
  CHECK(one.profiled->ranks == std::vector{1});
  CHECK(one.steps.front().exposed_us.value() == Approx(990 + 2000).margin(1));  // of rank 1 alone
  CHECK(one.steps.front().overlapped_us.value() == Approx(1000).margin(1));
  CHECK(one.cost.front().caused_median_us == Approx(2000).margin(1));  // what rank 0 hides of it is not known
  CHECK_THAT(viewer::text_of(one), Contains("     0  no profile: "));
}

TEST_CASE("if the profiles cover no whole step, the comparison is with all of their time") {
  const TemporaryDirectory place;
  const std::string trace = trace_of_job(place);
  // The profile begins within step 2, which is inferred from the first tensor, and ends within step 3.
  const std::string profile = profile_of(place, {.rank = 0,
                                                 .base_time_ns = base_time_ns(trace) + 2'000'000,
                                                 .from_step = 2,
                                                 .to_step = 3,
                                                 .has_steps = false});
  const auto report = must_report({trace, profile});
  REQUIRE(report.profiled);
  CHECK(report.profiled->end_us - report.profiled->start_us == Approx(kStepUs).margin(1));
  CHECK(report.steps.empty());
  REQUIRE(report.profiled->overlap.size() == 1);
  CHECK_FALSE(report.profiled->overlap.front().step);
  CHECK(report.profiled->overlap.front().bytes == 8'000'000);
  CHECK_THAT(viewer::text_of(report), Contains("Communication and computation of each rank (in total"));
}

TEST_CASE("profiles that do not belong to the trace are refused by name, with what to do") {
  const TemporaryDirectory place;
  const std::string trace = trace_of_job(place);
  const std::int64_t base_ns = base_time_ns(trace) - 1'000'000;
  const auto refused = [&](const Profiler& profiler, const std::string& why) {
    const std::string path = profile_of(place, profiler);
    CHECK_THAT(error_of({trace, path}), Contains("'" + path + "'") && Contains(why));
  };
  refused({.rank = 2, .base_time_ns = base_ns}, "is of rank 2, which '" + trace + "' does not have");
  refused({.rank = 0, .base_time_ns = base_ns, .size = 4}, "is of a job with 4 ranks");
  refused({.rank = 0, .base_time_ns = 9'000'000'000'000'000'000, .zero_us = 8e15}, "does not have the time");
  refused({.rank = 0}, "does not have the time of day");
  refused({.rank = 0, .base_time_ns = base_ns + 3'600'000'000'000}, "were not recorded at the same time");
  const std::string early =
      profile_of(place, {.rank = 0, .base_time_ns = base_ns, .from_step = 0, .to_step = 2});
  const std::string late =
      profile_of(place, {.rank = 1, .base_time_ns = base_ns, .from_step = 3, .to_step = 5});
  CHECK_THAT(error_of({trace, early, late}), Contains("'" + late + "' was recorded at another time"));
  CHECK_THAT(error_of({trace, early, early}), Contains("are both of rank 0"));
}

TEST_CASE("a trace without the time of day is refused with the command that makes it again") {
  const TemporaryDirectory place;
  const std::string trace = trace_of_job(place);
  const std::string profile = profile_of(place, {.base_time_ns = base_time_ns(trace)});
  Json older = read_trace(trace);
  older.erase("baseTimeNanoseconds");
  std::ofstream(trace) << older;
  CHECK_THAT(error_of({trace, profile}), Contains("'" + trace + "' does not have the time of day") &&
                                             Contains("dabke-timeline merge " + trace));
}

TEST_CASE("a profile is aligned by the clock of its rank's host, whatever the other hosts' time of day") {
  const TemporaryDirectory place;
  const std::string trace = trace_of_job(place);
  constexpr std::int64_t kAhead = 3'600'000'000'000;
  const std::int64_t base_ns = base_time_ns(trace) - 1'000'000;
  Json other = read_trace(trace);
  other["otherData"]["clocks"][1]["base_time_ns"] = base_time_ns(trace) + kAhead;
  std::ofstream(trace) << other;
  const auto report = must_report({trace, profile_of(place, {.rank = 0, .base_time_ns = base_ns}),
                                   profile_of(place, {.rank = 1, .base_time_ns = base_ns + kAhead})});
  REQUIRE(report.profiled);
  CHECK(report.profiled->overlap.back().hidden_us == Approx(1000).margin(1));
}

TEST_CASE("calls in a profile have the bytes of their parameters") {
  const TemporaryDirectory place;
  const std::string path = place / "profile.rank3.json";
  const auto parameters = [](const char* name, int at, int in, int out, const char* dtype) {
    return fmt::format(R"({{"ph":"X","cat":"cpu_op","name":"{}","pid":1,"tid":7,"ts":{},"dur":20,"args":)"
                       R"({{"In msg nelems":{},"Out msg nelems":{},"dtype":"{}"}}}},)",
                       name, at, in, out, dtype);
  };
  const auto call = [](const char* name, int at, bool has_end = true) {
    return fmt::format(R"({{"ph":"X","cat":"cpu_op","name":"{}","pid":1,"tid":7,"ts":{},"dur":50,"args":)"
                       R"({{"finished":{}}}}},)",
                       name, at, has_end);
  };
  // The events of a thread overlap, and their order in the file is any.
  std::ofstream(path) << R"({"traceEvents": [)" << call("dabke:all_gather", 200, false)
                      << parameters("c10d::dabke_param_comms", 205, 10, 20, "BFloat16")
                      << call("dabke:all_reduce", 100)
                      << parameters("c10d::dabke_param_comms", 110, 1000, 1000, "Float")
                      << parameters("c10d::dabke_param_comms", 310, 0, 6, "Long") << call("dabke:recv", 300)
                      << parameters("record_param_comms", 400, 5, 5, "Double") << call("gloo:all_reduce", 405)
                      << R"({"ph":"i","ts":1}]})";
  const auto report = must_report({path});
  CHECK(report.ranks == std::vector{3});  // of its name
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& tensor : report.tensors) bytes[tensor.name] = tensor.bytes;
  CHECK(bytes == std::map<std::string, std::uint64_t>{{"dabke:all_reduce", 4000},
                                                      {"dabke:all_gather", 20},
                                                      {"dabke:recv", 48},
                                                      {"gloo:all_reduce", 40}});
  REQUIRE(report.notes.size() == 1);
  CHECK_THAT(report.notes.front(), Contains("no end of 1 call in '" + path + "'"));
}

}  // namespace dabke::test

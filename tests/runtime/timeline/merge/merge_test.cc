// Jobs whose records the tests write, so that every time in the trace is known.
#include "runtime/timeline/merge/merge.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <thread>
#include <tuple>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "runtime/timeline/event_arguments.h"
#include "tests/facts.h"
#include "tests/runtime/timeline/job.h"
#include "tests/trace_form.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using What = timeline::Record::What;
using test::Json;

const std::vector<std::string> kNoFaults;

using test::kBegin;
using test::merged;
using test::TemporaryDirectory;
using test::write_job;
using test::Writer;

std::vector<Json> events(const Json& trace, const std::string& phase, const std::string& name = "") {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase && (name.empty() || event["name"] == name)) found.push_back(event);
  }
  return found;
}

/// The name of the row for each event's pid and tid.
std::map<std::pair<int, int>, std::string> rows_of(const Json& trace) {
  std::map<std::pair<int, int>, std::string> rows;
  for (const Json& event : events(trace, "M", "thread_name"))
    rows[{event["pid"], event["tid"]}] = event["args"]["name"].get<std::string>();
  return rows;
}

}  // namespace

TEST_CASE("the rank that closes its records waits for the others', and says which it does not see") {
  const TemporaryDirectory place;
  const std::string base = place / "trace.json";
  std::vector<std::string> notes;
  timeline::TimelineOrigin origin{.job_id = {std::byte{7}}, .size = 2};
  write_job(base);
  CHECK(timeline::merge_closed_records(base, origin, notes).is_ok());
  CHECK(notes.empty());
  CHECK(events(test::read_trace(base), "M", "process_name").size() == 2);

  origin.size = 3;
  const Status unseen = timeline::merge_closed_records(base, origin, notes);
  origin.size = 2;
  CHECK_THAT(unseen.message(), Contains("rank 0 cannot find '" + base + ".rank2'"));

  // The file is cut before its end, as by a kill. The merge waits for it, and then uses what is there.
  const std::string whole = test::read_file(base + ".rank1");
  const auto cut = [&] { std::filesystem::resize_file(base + ".rank1", whole.size() - 8); };
  cut();
  CHECK_FALSE(timeline::RecordFile::is_closed(base + ".rank1"));
  CHECK(timeline::RecordFile::is_closed(base + ".rank0"));
  CHECK(timeline::merge_closed_records(base, origin, notes).is_ok());
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains("rank 1"));

  // A busy machine may delay the other rank for longer than the merge waits.
  for (int i = 0; i < 5 && !notes.empty(); ++i) {
    cut();
    std::jthread late([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::ofstream(base + ".rank1", std::ios::binary | std::ios::app) << whole.substr(whole.size() - 8);
    });
    CHECK(timeline::merge_closed_records(base, origin, notes).is_ok());
  }
  CHECK(notes.empty());
}

TEST_CASE("one trace has each rank as a process, its batches in a lane and its tensors in rows") {
  const TemporaryDirectory place;
  write_job(place / "trace");
  const Json trace = merged(place / "trace", place / "trace");
  CHECK(test::form_faults(trace) == kNoFaults);
  const auto rows = rows_of(trace);
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    std::map<std::string, std::tuple<double, double>> seen;
    for (const Json& event : events(trace, "X")) {
      if (event["pid"] != rank) continue;
      seen[rows.at({rank, event["tid"]}) + " " + event["name"].get<std::string>()] = {event["ts"],
                                                                                      event["dur"]};
    }
    const double late = rank == 1 ? 300 : 0;
    CHECK(seen == std::map<std::string, std::tuple<double, double>>{
                      {"a NEGOTIATE_ALLREDUCE", {0, 350}},
                      {"a ALLREDUCE", {350, 50}},
                      {"a QUEUE", {350, 10}},
                      {"a SHM_ALLREDUCE", {360, 40}},
                      {"b NEGOTIATE_ALLREDUCE", {20 + late, 330 - late}},
                      {"b ALLREDUCE", {350, 50}},
                      {"b QUEUE", {350, 10}},
                      {"b SHM_ALLREDUCE", {360, 40}},
                      {"lane ALLREDUCE", {360, 40}},
                      {"lane SHM_ALLREDUCE", {360, 40}}});
  }
}

TEST_CASE("a batch says what it was and who came last, and an arrow leads from there to the others") {
  const TemporaryDirectory place;
  write_job(place / "trace");
  const Json trace = merged(place / "trace", place / "trace.json");
  const auto rows = rows_of(trace);
  for (const Json& event : events(trace, "X", "ALLREDUCE")) {
    if (rows.at({event["pid"], event["tid"]}) != "lane") continue;
    CHECK(event["args"] == Json{{"order", 5},
                                {"batch", "5.0"},
                                {"bytes", 800},
                                {"backend", "shm"},
                                {"algorithm", "direct"},
                                {"set", 0},
                                {"tensors", 2},
                                {"first", "a"},
                                {"last_rank", 1},
                                {"last_by_us", 300.0}});
  }
  const auto begin = events(trace, "s"), end = events(trace, "f");
  REQUIRE(begin.size() == 1);
  REQUIRE(end.size() == 1);
  CHECK(begin[0]["id"] == end[0]["id"]);
  CHECK(begin[0]["pid"] == 1);
  CHECK(rows.at({1, begin[0]["tid"]}) == "b");
  CHECK(begin[0]["ts"] == 320.0);
  CHECK(end[0]["pid"] == 0);
  CHECK(rows.at({0, end[0]["tid"]}) == "lane");
  CHECK(end[0]["ts"] == 360.0);
}

TEST_CASE("counters show the queue, the bytes on their way and the bandwidth of the bus") {
  const TemporaryDirectory place;
  write_job(place / "trace");
  const Json trace = merged(place / "trace", place / "trace.json");
  using Values = std::vector<std::pair<double, std::uint64_t>>;
  const auto values = [&](const std::string& name) {
    Values of_rank_0;
    for (const Json& event : events(trace, "C", name)) {
      if (event["pid"] == 0) of_rank_0.emplace_back(event["ts"], event["args"]["value"]);
    }
    return of_rank_0;
  };
  CHECK(values("queue") == Values{{350, 1}, {360, 0}});
  CHECK(values("bytes in flight") == Values{{350, 800}, {400, 0}});
  CHECK(values("bus bandwidth (MB/s)") == Values{{360, 20}, {400, 0}});  // 2 * 1/2 * 800 bytes in 40 us
}

TEST_CASE("spans, steps, cycles, barriers, errors and lost records are in the trace") {
  const TemporaryDirectory place;
  {
    Writer writer(place / "trace", 0, 1);
    timeline::Timeline& timeline = writer.timeline();
    writer.put(0, {.bytes = 1, .what = What::step});
    timeline.begin_span("forward <script> \"\xff");
    timeline.end_span();
    timeline.begin_span("never ends");
    writer.put(50, {.what = What::cycle});
    writer.put(60,
               {.name = timeline.tensor("barrier.1"), .what = What::submit, .kind = CollectiveKind::barrier});
    writer.put(70, {.bytes = 3, .what = What::lost});
    writer.submit(80, "refused");
    timeline::Record refused{.name = timeline.tensor("refused")};
    refused.time_ns = kBegin + 90'000;
    timeline.error(refused, {Code::mismatch, "Mismatched shapes"});
    writer.put(100, {.bytes = 2, .what = What::step});
    writer.submit(110, "never ordered");
    writer.put(120, {.what = What::cycle});
  }
  const Json trace = merged(place / "trace", place / "trace.json");
  CHECK(test::form_faults(trace) == kNoFaults);
  CHECK(events(trace, "X", "forward <script> \"\ufffd").size() == 1);
  CHECK(events(trace, "X", "never ends").size() == 1);
  CHECK(events(trace, "i", "STEP").size() == 2);
  const auto step = events(trace, "X", "step 2");
  REQUIRE(step.size() == 1);
  CHECK(step[0]["dur"] == 100.0);
  CHECK(events(trace, "i", "CYCLE_START").size() == 2);
  CHECK(events(trace, "i", "BARRIER").size() == 1);
  CHECK(events(trace, "i", "RECORDS_LOST").at(0)["args"]["count"] == 3);
  CHECK(events(trace, "i", "ERROR").at(0)["args"] ==
        Json{{"code", "mismatch"}, {"error", "Mismatched shapes"}});
  std::map<std::string, bool> unfinished;
  const auto rows = rows_of(trace);
  for (const Json& event : events(trace, "X", "NEGOTIATE_ALLREDUCE"))
    unfinished[rows.at({0, event["tid"]})] = event["args"].contains("unfinished");
  CHECK(unfinished == std::map<std::string, bool>{{"refused", false}, {"never ordered", true}});
}

TEST_CASE("a tensor that runs again before it has ended has another row of its name, with its true times") {
  const TemporaryDirectory place;
  {
    Writer writer(place / "trace", 0, 1);
    writer.submit(0, "a");
    writer.submit(5, "a");
    writer.run(10, 100, 1, {"a"});
    writer.run(50, 160, 2, {"a"});
  }
  const Json trace = merged(place / "trace", place / "trace.json");
  CHECK(test::form_faults(trace) == kNoFaults);
  const auto rows = rows_of(trace);
  std::map<int, std::vector<std::tuple<std::string, double, double>>> seen;  // by tid
  for (const Json& event : events(trace, "X")) {
    if (rows.at({0, event["tid"]}) == "a" && event["args"].contains("order"))
      seen[event["tid"]].emplace_back(event["name"], event["ts"], event["dur"]);
  }
  REQUIRE(seen.size() == 2);
  using Events = std::vector<std::tuple<std::string, double, double>>;
  CHECK(seen.begin()->second == Events{{"NEGOTIATE_ALLREDUCE", 0, 10}, {"ALLREDUCE", 10, 90}});
  CHECK(seen.rbegin()->second == Events{{"NEGOTIATE_ALLREDUCE", 5, 45}, {"ALLREDUCE", 50, 110}});
}

TEST_CASE("a tensor's name has a row for each process set, also where they do not overlap") {
  const TemporaryDirectory place;
  {
    Writer writer(place / "trace", 0, 1);
    std::uint64_t order = 0;
    for (const ProcessSetId set : {0, 3, 0, 3}) {
      const auto at = static_cast<std::int64_t>(++order) * 100;
      timeline::Record about{
          .order = order, .batch = order, .name = writer.timeline().tensor("a"), .process_set = set};
      about.what = What::submit;
      writer.put(at, about);
      about.what = What::order;
      writer.put(at + 10, about);
      about.time_ns = kBegin + (at + 20) * 1000;
      writer.timeline().done(about, Shape{1});
    }
  }
  const Json trace = merged(place / "trace", place / "trace.json");
  CHECK(test::form_faults(trace) == kNoFaults);
  const auto rows = rows_of(trace);
  std::map<int, std::vector<int>> sets;  // by tid
  for (const Json& event : events(trace, "X", "ALLREDUCE")) {
    if (rows.at({0, event["tid"]}) == "a") sets[event["tid"]].push_back(event["args"]["set"]);
  }
  REQUIRE(sets.size() == 2);
  CHECK(sets.begin()->second == std::vector{0, 0});
  CHECK(sets.rbegin()->second == std::vector{3, 3});
}

TEST_CASE("spans and waits lie within each other where records of their ends are lost") {
  const TemporaryDirectory place;
  {
    Writer writer(place / "trace", 0, 1);
    timeline::Timeline& timeline = writer.timeline();
    timeline.begin_span("first");
    timeline.begin_wait();  // its end is lost
    timeline.end_span();
    timeline.begin_wait();  // dropped when the next one begins
    timeline.begin_span("second");
    timeline.begin_wait();
    timeline.end_wait();
    timeline.end_wait();    // of an unknown wait
    timeline.begin_wait();  // its end is lost
    timeline.end_span();
  }
  const Json trace = merged(place / "trace", place / "trace.json");
  CHECK(test::form_faults(trace) == kNoFaults);
  std::vector<std::string> seen;
  for (const Json& event : events(trace, "X")) seen.push_back(event["name"]);
  CHECK(seen == std::vector<std::string>{"WAIT", "first", "WAIT", "WAIT", "second"});
}

TEST_CASE("steps of a batch lie within or beside each other, whatever times a device gives them") {
  const TemporaryDirectory place;
  {
    Writer writer(place / "trace", 0, 1);
    writer.submit(0, "a");
    timeline::Record about{
        .order = 1, .batch = 1, .name = writer.timeline().tensor("a"), .what = What::order};
    writer.put(0, about);
    writer.step(0, 10, 1, What::queue);
    writer.put(9, {.order = 1, .batch = 1, .what = What::pack});  // before the end of the queue
    writer.put(20, {.order = 1, .batch = 1, .what = What::run});
    writer.put(30, {.order = 1,
                    .batch = 1,
                    .what = What::pack,
                    .flags = timeline::Record::kEnd});  // after the beginning of the run
    writer.put(40, {.order = 1, .batch = 1, .what = What::run, .flags = timeline::Record::kEnd});
    about.time_ns = kBegin + 50'000;
    writer.timeline().done(about, Shape{1});
  }
  const Json trace = merged(place / "trace", place / "trace.json");
  CHECK(test::form_faults(trace) == kNoFaults);
  std::map<std::string, std::pair<double, double>> seen;
  const auto rows = rows_of(trace);
  for (const Json& event : events(trace, "X")) {
    if (rows.at({0, event["tid"]}) == "a") seen[event["name"]] = {event["ts"], event["dur"]};
  }
  CHECK(seen["QUEUE"] == std::pair(0.0, 10.0));
  CHECK(seen["MEMCPY_IN_FUSION_BUFFER"] == std::pair(10.0, 20.0));
  CHECK(seen["RUN"] == std::pair(30.0, 10.0));
}

TEST_CASE("no nanosecond of a trace is lost by a reader that multiplies and cuts off") {
  std::int64_t wrong = 0, longer = 0;
  for (const std::int64_t from : {std::int64_t{0}, std::int64_t{86'400'000'000'000}}) {
    for (std::int64_t ns = from; ns < from + 100'000; ++ns) {
      const std::string text = fmt::format("{}", timeline::Micros{ns});
      wrong += static_cast<std::int64_t>(std::stod(text) * 1000) != ns;
      longer += text.size() - text.find('.') > 4;
    }
  }
  CHECK(wrong == 0);
  CHECK(longer > 0);  // for example, 1.001
  CHECK(fmt::format("{}", timeline::Micros{1001}) == "1.0011");
  CHECK(fmt::format("{}", timeline::Micros{1000}) == "1.000");
}

TEST_CASE("a merged trace has the time of day at its zero, by the clock of each rank's host") {
  const TemporaryDirectory place;
  write_job(place / "trace");
  const auto now_ns = [](auto clock) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(decltype(clock)::now().time_since_epoch())
        .count();
  };
  const std::int64_t ahead_ns = now_ns(std::chrono::system_clock()) - now_ns(std::chrono::steady_clock());
  const Json trace = merged(place / "trace", place / "trace.json");
  constexpr std::int64_t kMost =
      5'000'000'000;  // the clocks were read one after the other, on a busy machine
  CHECK(std::abs(trace["baseTimeNanoseconds"].get<std::int64_t>() - (kBegin + ahead_ns)) < kMost);
  for (const Json& clock : trace["otherData"]["clocks"])
    CHECK(std::abs(clock["base_time_ns"].get<std::int64_t>() - (kBegin + ahead_ns)) < kMost);
}

TEST_CASE("the time of day of a host is its own, also if it differs from that of the first host") {
  const TemporaryDirectory place;
  for (const Rank rank : {0, 1}) Writer(place / "trace", rank, 2).submit(10, "a");
  // The second rank's time of day is an hour ahead. Both ranks share a clock.
  const std::string path = place / "trace.rank1";
  std::string bytes = test::read_file(path);
  constexpr std::size_t kHead = sizeof(timeline::FilePreface);
  timeline::BlockHead head;
  std::memcpy(&head, bytes.data() + kHead, sizeof head);
  timeline::OriginHead origin;
  char* const content = bytes.data() + kHead + sizeof head;
  std::memcpy(&origin, content, sizeof origin);
  origin.realtime_ns += 3'600'000'000'000;
  std::memcpy(content, &origin, sizeof origin);
  head.check = timeline::check_of(head, std::string_view(content, head.bytes));
  std::memcpy(bytes.data() + kHead, &head, sizeof head);
  std::ofstream(path, std::ios::binary) << bytes;
  const Json clocks = merged(place / "trace", place / "trace.json")["otherData"]["clocks"];
  const auto apart_ns =
      clocks[1]["base_time_ns"].get<std::int64_t>() - clocks[0]["base_time_ns"].get<std::int64_t>();
  CHECK(std::abs(apart_ns - 3'600'000'000'000) < 5'000'000'000);
}

TEST_CASE("files of other jobs and epochs are refused by name") {
  const TemporaryDirectory place;
  const std::string base = place / "trace";
  { Writer(base, 2, 4, std::byte{1}); }
  { Writer(base, 3, 4, std::byte{7}, 2); }
  write_job(base);
  const auto files = timeline::JobFiles::find(base);
  REQUIRE(files.is_ok());
  CHECK(files->ranks().size() == 2);
  REQUIRE(files->notes().size() == 2);
  CHECK_THAT(files->notes()[0], Contains("trace.rank2' is left out: it belongs to job 01"));
  CHECK_THAT(files->notes()[1], Contains("trace.rank3' is left out") && Contains("epoch 2"));

  const auto named = timeline::JobFiles::open({base + ".rank0", base + ".rank2"});
  CHECK_THAT(named.status().message(),
             Contains("trace.rank2' belongs to job 01") && Contains("trace.rank0' to job 07"));
  const auto twice = timeline::JobFiles::open({base + ".rank0", base + ".rank0"});
  CHECK_THAT(twice.status().message(), Contains("both belong to rank 0"));

  JobId wanted{std::byte{9}};
  CHECK_THAT(timeline::JobFiles::find(base, wanted).status().message(),
             Contains("found no records of this job"));
  CHECK_THAT(timeline::JobFiles::find(place / "other").status().message(),
             Contains("found no records") && Contains("other.rank<n>"));
}

TEST_CASE("ranks that left nothing are named") {
  const TemporaryDirectory place;
  { Writer(place / "trace", 1, 9); }
  { Writer(place / "trace", 4, 9); }
  const auto files = timeline::JobFiles::find(place / "trace");
  REQUIRE(files.is_ok());
  CHECK(files->notes() == std::vector<std::string>{"of 9 ranks, no records exist of: 0, 2-3, 5-8"});
}

TEST_CASE("a file that was cut anywhere merges up to there, and the missing tail is named") {
  const TemporaryDirectory place;
  const std::string base = place / "trace", cut = base + ".rank1";
  write_job(base);
  const auto whole = std::filesystem::file_size(cut);
  std::size_t merges = 0;
  for (std::uintmax_t size = whole; size-- > 0;) {
    std::filesystem::resize_file(cut, size);
    const auto files = timeline::JobFiles::find(base);
    INFO(size << ": " << files.status().message());
    REQUIRE(files.is_ok());
    REQUIRE_FALSE(files->notes().empty());
    CHECK_THAT(files->notes().front(), Contains("trace.rank1'"));
    if (size % 16 != 0) continue;
    REQUIRE(timeline::merge_records(*files, place / "trace.json").is_ok());
    const Json trace = test::read_trace(place / "trace.json");
    CHECK(test::form_faults(trace) == kNoFaults);
    CHECK(trace["otherData"]["missing"].size() == files->notes().size());
    merges += events(trace, "i", "TAIL_MISSING").size();
  }
  CHECK(merges > 0);
}

TEST_CASE("a damaged file is refused with its name and the place") {
  const TemporaryDirectory place;
  const std::string base = place / "trace";
  write_job(base);
  const auto size = std::filesystem::file_size(base + ".rank1");
  std::fstream(base + ".rank1", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(size) - 100)
      .put('\x55');
  const auto files = timeline::JobFiles::find(base);
  CHECK_THAT(files.status().message(), Contains("trace.rank1' is damaged at byte"));
}

TEST_CASE("what was there before a merge that fails is there still, and nothing else is left") {
  const TemporaryDirectory place;
  write_job(place / "trace");
  const auto files = timeline::JobFiles::find(place / "trace");
  REQUIRE(files.is_ok());
  CHECK_THAT(timeline::merge_records(*files, place / "trace.rank0").message(),
             Contains("contains the records themselves"));
  CHECK_THAT(timeline::merge_records(*files, place / "nowhere/trace.json").message(),
             Contains("in a directory that exists"));
  std::filesystem::create_directory(place / "folder.json");
  CHECK_THAT(timeline::merge_records(*files, place / "folder.json").message(), Contains("writing the trace"));
  std::size_t left = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(place / "")) ++left;
  CHECK(left == 3);
}

TEST_CASE("a batch whose rank was killed within it is told with what the others have of it") {
  const TemporaryDirectory place;
  const std::string base = place / "trace";
  {
    Writer writer(base, 0, 2);
    for (std::uint64_t order = 1; order <= 3; ++order) {
      const auto at = static_cast<std::int64_t>(order) * 100;
      writer.submit(at, "a");
      writer.run(at + 10, at + 50, order, {"a"});
    }
  }
  {
    Writer writer(base, 1, 2);
    writer.submit(100, "a");
    writer.run(110, 150, 1, {"a"});
    writer.submit(200, "a");
    writer.put(
        210,
        {.order = 2, .batch = 2, .bytes = 400, .name = writer.timeline().tensor("a"), .what = What::order});
  }
  const Json trace = merged(base, place / "trace.json");
  CHECK(test::form_faults(trace) == kNoFaults);
  std::map<std::pair<int, int>, bool> ended;  // rank and order
  for (const Json& event : events(trace, "X", "ALLREDUCE")) {
    if (event["args"].contains("shape"))
      ended[{event["pid"], event["args"]["order"]}] = !event["args"].contains("unfinished");
  }
  CHECK(ended == std::map<std::pair<int, int>, bool>{
                     {{0, 1}, true}, {{0, 2}, true}, {{0, 3}, true}, {{1, 1}, true}, {{1, 2}, false}});
}

TEST_CASE("the trace of a job that is not elastic is the golden one, byte for byte") {
  const TemporaryDirectory place;
  const std::string base = place / "trace.json";
  for (const Rank rank : {0, 1}) {
    Writer writer(base, rank, 2);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto at = static_cast<std::int64_t>(step) * 1000;
      writer.put(at, {.what = What::wait});
      writer.submit(at + 10 * rank, "layer.\"1\"");
      writer.submit(at + 20, "layer.2", 1 << 20);
      writer.run(at + 100, at + 400, 10 * step + 1, {"layer.\"1\"", "layer.2"});
      writer.put(at + 410, {.what = What::wait, .flags = timeline::Record::kEnd});
      writer.mark(at + 500, step);
    }
    writer.fail(3000, 3010 + rank, "bad");
    writer.submit(3100, "unfinished");
  }
  std::filesystem::resize_file(base + ".rank1", std::filesystem::file_size(base + ".rank1") - 8);
  const auto files = timeline::JobFiles::find(base);
  REQUIRE(files.is_ok());
  REQUIRE(timeline::merge_records(*files, base).is_ok());
  // The threads have the number of this test's thread, and the notes the path of its folder.
  std::string text =
      std::regex_replace(test::read_file(base), std::regex(R"("[\w-]+ \d{2,}")"), "\"thread\"");
  for (auto at = text.find(base); at != text.npos; at = text.find(base))
    text.replace(at, base.size(), "trace.json");
  text = std::regex_replace(text, std::regex("(baseTimeNanoseconds|base_time_ns)\":[0-9]+"), "$1\":N");
  // The writer's thread puts the same records into more blocks if it comes more often.
  text = std::regex_replace(text, std::regex("from byte [0-9]+ on"), "from byte N on");
  CHECK(text == test::read_file(SOURCE_ROOT "/tests/golden/timeline-trace.json"));
}

}  // namespace dabke::test

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/base/threads/owned.h"
#include "runtime/timeline/joining/record_file.h"
#include "tests/child_process.h"
#include "tests/patience.h"
#include "tests/runtime/timeline/trace.h"
#include "tests/trace_form.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using test::Json;

TEST_CASE("a trace begins with the time of its start") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  const auto now_us = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const auto before = now_us();
  REQUIRE(test::must_open({.path = path})->close().is_ok());
  const Json trace = test::read_trace(path);
  REQUIRE(trace.size() == 3);
  CHECK(trace[0]["name"] == "process_name");
  CHECK(trace[0]["pid"] == 0);
  const std::int64_t start = trace[0]["args"]["start_time_since_epoch_in_micros"];
  CHECK(start >= before);
  CHECK(start <= now_us());
  CHECK(trace[1] ==
        Json{{"name", "process_sort_index"}, {"ph", "M"}, {"pid", 0}, {"args", {{"sort_index", 0}}}});
}

TEST_CASE("names with quotes, newlines, bad UTF-8 and a megabyte make a valid file") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  const std::vector<std::string> names = {"a \"quoted\" \\ name",
                                          "two\nlines\t\x01\x7f",
                                          "",
                                          "\xd8\xaf\xd8\xa8\xd9\x83\xd8\xa9 \xf0\x9f\x92\x83",
                                          "{}{:d}%s",
                                          std::string("a\0b", 3),
                                          std::string(1 << 20, '\"'),
                                          std::string(1 << 20, 'x')};
  const std::vector<std::string> bad = {"\xff\xfe", "cut \xe2\x82", "\xc0\xaf", "\xed\xa0\x80",
                                        "\xf5\x80\x80\x80"};
  {
    const auto timeline = test::must_open({.path = path});
    for (const std::string& name : names)
      test::negotiate_start(*timeline, timeline->tensor(name), CollectiveKind::barrier);
    for (const std::string& name : bad) test::negotiate_end(*timeline, timeline->tensor(name));
  }
  const Json trace = test::read_trace(path);
  std::vector<std::string> seen;
  for (const Json& event : trace) {
    if (event.value("name", "") == "process_name" && event["pid"] != 0) seen.push_back(event["args"]["name"]);
  }
  REQUIRE(seen.size() == names.size() + bad.size());
  CHECK(std::equal(names.begin(), names.end(), seen.begin()));
  for (std::size_t i = names.size(); i < seen.size(); ++i)
    CHECK(seen[i].find("\xef\xbf\xbd") != std::string::npos);
}

TEST_CASE("times are microseconds since the start, with fractions, taken when the record is made") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  const auto before = Clock::now();
  const auto timeline = test::must_open({.path = path});
  const auto id = timeline->tensor("x");
  std::vector<double> least, most;
  const auto opened = Clock::now();
  for (int i = 0; i < 100; ++i) {
    least.push_back(std::chrono::duration<double, std::micro>(Clock::now() - opened).count());
    test::rank_ready(*timeline, id, i);
    most.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  REQUIRE(timeline->close().is_ok());
  const auto events = test::events_of(test::read_trace(path), 1);
  REQUIRE(events.size() == 100);
  int outside = 0, with_fraction = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const double ts = events[i]["ts"];
    outside += ts < least[i] - 0.002 || ts > most[i] + 0.002;
    with_fraction += ts != static_cast<double>(static_cast<std::int64_t>(ts));
  }
  CHECK(outside == 0);
  CHECK(with_fraction > 0);
}

TEST_CASE(
    "a trace of Horovod's format never exceeds its limit, is whole, and says how many records it lacks") {
  const std::uint64_t limit = GENERATE(1000, 5000, 100'000, 600'000);
  const std::uint64_t names = GENERATE(3, 400);
  constexpr std::uint64_t kRounds = 4000;
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  const auto timeline = test::must_open({.path = path, .queue_records = 1 << 16, .max_bytes = limit});
  timeline->begin_span("outer");
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const auto id = timeline->tensor("layer." + std::to_string(i % names));
    test::negotiate_start(*timeline, id, CollectiveKind::allreduce);
    test::rank_ready(*timeline, id, 0);
    test::negotiate_end(*timeline, id);
    test::op_start(*timeline, std::array{id}, CollectiveKind::allreduce);
    test::negotiate_start(*timeline, id, CollectiveKind::allreduce);  // of the next round
  }
  REQUIRE(timeline->close().is_ok());
  CAPTURE(limit, names);
  CHECK(std::filesystem::file_size(path) <= limit);
  const Json trace = test::read_trace(path);
  CHECK(test::form_faults(Json{{"traceEvents", trace}}) == std::vector<std::string>());
  REQUIRE(trace.back()["name"] == "timeline_end");
  CHECK(trace.back()["args"]["lost"] > 0);
  CHECK(trace.back()["args"]["records"].get<std::uint64_t>() +
            trace.back()["args"]["lost"].get<std::uint64_t>() ==
        1 + 5 * kRounds);
}

TEST_CASE("a file that cannot be opened is refused with its path and the reason") {
  test::TemporaryDirectory folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string plain = folder / "plain";
  { const std::ofstream made(plain); }
  struct Case {
    std::string path, reason;
  };
  for (const auto& [path, reason] :
       {Case{folder.path(), "Is a directory"},
        Case{folder.path() + "/no/such/trace.json", "No such file or directory"},
        Case{plain + "/trace.json", "Not a directory"}, Case{"", "No such file or directory"},
        Case{std::string(5000, 'x'), "File name too long"}, Case{pipe, "'" + pipe + "'"}}) {
    const auto timeline = timeline::Timeline::open({.path = path});
    REQUIRE_FALSE(timeline.is_ok());
    CHECK_THAT(timeline.status().message(), Catch::Contains("'" + path + "'") && Catch::Contains(reason));
    CHECK_THAT(timeline::Timeline::check({.path = path}).message(), Catch::Contains(reason));
  }
}

TEST_CASE("a check whether a path can be written leaves all there as it is") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  CHECK(timeline::Timeline::check({.path = path}).is_ok());
  CHECK_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "mine";
  CHECK(timeline::Timeline::check({.path = path}).is_ok());
  CHECK(test::read_file(path) == "mine");
}

TEST_CASE("a timeline that begins a new file leaves the one before it alone, which is still written") {
  const TimelineFormat format = GENERATE(TimelineFormat::horovod, TimelineFormat::records);
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace", records = folder / "trace.rank0";
  timeline::Timeline::Options options{.path = path, .format = format};
  const auto before = test::must_open(options);
  for (int i = 0; i < 1000; ++i) test::rank_ready(*before, before->tensor("x"), i);
  options.begins_new_file = true;
  const auto after = test::must_open(options);
  for (int i = 0; i < 1000; ++i) test::rank_ready(*before, before->tensor("x"), i);
  test::rank_ready(*after, after->tensor("y"), 3);
  REQUIRE(before->close().is_ok());
  REQUIRE(after->close().is_ok());
  if (format == TimelineFormat::horovod) {
    CHECK(test::events_of(test::read_trace(path), 1).size() == 1);
  } else {
    CHECK(timeline::RecordFile::is_closed(records));
    CHECK(std::filesystem::file_size(records) < 1000);
  }
}

TEST_CASE("a pipe that somebody reads is refused too") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto timeline = timeline::Timeline::open({.path = path});
  REQUIRE_FALSE(timeline.is_ok());
  CHECK_THAT(timeline.status().message(), Catch::Contains("regular file"));
}

TEST_CASE("a full disk disturbs nobody and is what close returns, each time") {
  const auto timeline = test::must_open({.path = "/dev/full"});
  const auto id = timeline->tensor("x");
  for (int i = 0; i < 100'000; ++i) test::rank_ready(*timeline, id, i);
  const Status status = timeline->close();
  CHECK(status.code() == Code::transport);
  CHECK_THAT(status.message(), Catch::Contains("/dev/full") && Catch::Contains("No space left on device"));
  test::rank_ready(*timeline, id, 1);
  CHECK(timeline->close().message() == status.message());
}

TEST_CASE("a full disk is told when it happens, and once") {
  std::mutex mutex;
  std::condition_variable was_told;
  std::vector<std::string> told;
  const auto timeline = test::must_open({.path = "/dev/full", .on_error = [&](const Status& error) {
                                           const std::lock_guard lock(mutex);
                                           told.push_back(error.message());
                                           was_told.notify_one();
                                         }});
  const auto id = timeline->tensor("x");
  test::rank_ready(*timeline, id, 0);
  {
    std::unique_lock lock(mutex);
    REQUIRE(was_told.wait_for(lock, 60s, [&] { return !told.empty(); }));
  }
  for (int i = 1; i < 1000; ++i) test::rank_ready(*timeline, id, i);
  CHECK(told == std::vector{timeline->close().message()});
}

TEST_CASE("a file size limit is reported like a full disk, and the file is whole up to there") {
  const bool several_flushes = GENERATE(true, false);
  const rlim_t cut = GENERATE(range(0, test::kSanitized ? 1 : 4));  // the limit may cut anywhere
  const rlim_t limit_bytes = 100'000 + cut;
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  const int status = test::status_in_child([&] {
    const struct rlimit limit = {limit_bytes, limit_bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);  // SIGXFSZ would kill the process if the writer did not block it
    const auto timeline = test::must_open({.path = path});
    const auto id = timeline->tensor("x");
    for (int i = 0; i < 100'000; ++i) {
      test::rank_ready(*timeline, id, i);
      if (several_flushes && i % 1000 == 0) std::this_thread::sleep_for(1ms);
    }
    const std::string said = timeline->close().message();
    return said.find("File too large") != said.npos && said.find(path) != said.npos ? 0 : 1;
  });
  CHECK(status == 0);
  const Json trace = test::read_trace(path);
  REQUIRE(trace.is_array());
  CHECK(trace[0]["pid"] == 0);
  CHECK(trace.size() > 500);
}

TEST_CASE("a trace that a full disk has cut anywhere loads, and all that it begins ends") {
  const int step = test::kSanitized ? 997 : 97;
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  for (int limit = 1; limit < 30'000; limit += step) {
    const bool several_flushes = limit % 2 == 0;
    const int status = test::status_in_child([&] {
      const struct rlimit limits = {static_cast<rlim_t>(limit), static_cast<rlim_t>(limit)};
      ::setrlimit(RLIMIT_FSIZE, &limits);
      const auto timeline = test::must_open({.path = path});
      for (int i = 0; i < 200; ++i) {
        const auto id = timeline->tensor("tensor " + std::to_string(i % 40));
        timeline->begin_span("a \"ts\":1 span");
        test::negotiate_start(*timeline, id, CollectiveKind::allreduce);
        test::rank_ready(*timeline, id, i);
        if (i % 3 == 0) test::negotiate_end(*timeline, id);
        test::op_start(*timeline, std::array{id}, CollectiveKind::allreduce);
        test::activity_start(*timeline, std::array{id}, "QUEUE");
        if (i % 4 == 0) timeline->end_span();
        if (several_flushes && i % 20 == 0) std::this_thread::sleep_for(1ms);
      }
      return timeline->close().is_ok() ? 1 : 0;
    });
    const std::string text = test::read_file(path);
    CAPTURE(limit, text.size(), text.substr(text.size() - std::min<std::size_t>(text.size(), 300)));
    CHECK(status == 0);
    REQUIRE(text.size() <= static_cast<std::size_t>(limit));
    if (limit < 4) continue;  // "[\n]" does not fit
    const Json trace = Json::parse(text, nullptr, false);
    REQUIRE(trace.is_array());
    CHECK(test::form_faults(trace) == std::vector<std::string>());
    CHECK(text.size() + 5'000 > static_cast<std::size_t>(limit));  // no more is lost than the ends need
  }
}

TEST_CASE("everything recorded before close is in the file, and nothing after") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  const auto timeline = test::must_open({.path = path});
  const auto id = timeline->tensor("x");
  for (int i = 0; i < 50'000; ++i) test::rank_ready(*timeline, id, i);
  REQUIRE(timeline->close().is_ok());
  test::rank_ready(*timeline, id, -1);
  REQUIRE(timeline->close().is_ok());
  const auto events = test::events_of(test::read_trace(path), 1);
  REQUIRE(events.size() == 50'000);
  CHECK(events.back()["name"] == "49999");
}

TEST_CASE("a second timeline in the same process starts anew, over the old file") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  for (int round = 0; round < 20; ++round) {
    const auto timeline = test::must_open({.path = path});
    for (int i = round; i < 20; ++i) test::rank_ready(*timeline, timeline->tensor("x"), i);
  }
  const auto events = test::events_of(test::read_trace(path), 1);
  REQUIRE(events.size() == 1);
  CHECK(events[0]["name"] == "19");
}

/// Waits until the file parses and has `count` events of the first row.
/// Returns nothing if that takes too long.
std::optional<Json> wait_for_events(const std::string& path, std::size_t count) {
  const auto deadline = Clock::now() + 60s;
  while (Clock::now() < deadline) {
    const Json trace = Json::parse(test::read_file(path), nullptr, false);
    if (trace.is_array() && test::events_of(trace, 1).size() >= count) return trace;
    std::this_thread::sleep_for(2ms);
  }
  return std::nullopt;
}

TEST_CASE("what was recorded is in a readable file soon, without close") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  const auto timeline = test::must_open({.path = path});
  const auto id = timeline->tensor("x");
  std::size_t count = 0;
  for (int round = 0; round < 5; ++round) {
    test::rank_ready(*timeline, id, round);
    const auto trace = wait_for_events(path, ++count);
    REQUIRE(trace);
    std::this_thread::sleep_for(round * 15ms);  // the writer naps, or sleeps without limit
  }
}

TEST_CASE("after kill -9 the file is readable up to the last flush") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.json";
  int pipe_fds[2];
  REQUIRE(::pipe2(pipe_fds, O_CLOEXEC) == 0);
  const Fd reader(pipe_fds[0]);
  test::ChildProcess child([&] {
    const auto timeline = test::must_open({.path = path});
    const auto id = timeline->tensor("x");
    for (int i = 0; i < 1000; ++i) test::rank_ready(*timeline, id, i);
    if (!wait_for_events(path, 1000)) return 1;
    static_cast<void>(::write(pipe_fds[1], "x", 1));
    while (true) {  // goes on, so that the kill comes during a write
      test::negotiate_start(*timeline, id, CollectiveKind::allreduce);
      test::negotiate_end(*timeline, id);
      if (timeline->tensor("x") == 0) break;
    }
    return 1;
  });
  ::close(pipe_fds[1]);
  struct pollfd wait = {reader.get(), POLLIN, 0};
  char byte = 0;
  const bool flushed = ::poll(&wait, 1, 90'000) == 1 && ::read(reader.get(), &byte, 1) == 1;
  // Waits until much more has been written, so that the kill comes during a write.
  std::error_code none;
  const auto size = [&] { return std::filesystem::file_size(path, none); };
  const auto deadline = Clock::now() + 60s;
  for (const auto before = size(); size() < before + 500'000 && Clock::now() < deadline;) {
    std::this_thread::sleep_for(1ms);
  }
  child.kill();
  const int status = child.wait();
  REQUIRE(flushed);
  REQUIRE(WIFSIGNALED(status));
  // A kill inside a write may cut the last event. Trace viewers read the
  // complete events, and so does the test.
  std::string text = test::read_file(path);
  Json trace = Json::parse(text, nullptr, false);
  if (trace.is_discarded()) trace = Json::parse(text.substr(0, text.rfind("}") + 1) + "]", nullptr, false);
  if (trace.is_discarded()) trace = Json::parse(text.substr(0, text.rfind(",\n")) + "]", nullptr, false);
  REQUIRE(trace.is_array());
  CHECK(test::events_of(trace, 1).size() > 1000);
}

}  // namespace
}  // namespace dabke::test

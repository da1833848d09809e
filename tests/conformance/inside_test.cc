// The counters and the timeline of a job.
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/in_process/job.h"
#include "tests/skip.h"

namespace dabke::test {
namespace {

using Json = nlohmann::json;

class TempFile {
 public:
  TempFile() { ::close(::mkstemp(path_.data())); }
  ~TempFile() { ::unlink(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }
  Json read() const {
    std::ifstream in(path_);
    return Json::parse(in);
  }

 private:
  std::string path_ = "/tmp/dabke_trace_XXXXXX";
};

/// The events of the tensor `name` in the order of the file: "B NEGOTIATE_ALLREDUCE", "E", ...
std::vector<std::string> outline(const Json& trace, const std::string& name) {
  Json pid;
  for (const Json& event : trace) {
    if (event["ph"] == "M" && event["name"] == "process_name" && event["args"].value("name", "") == name)
      pid = event["pid"];
  }
  std::vector<std::string> lines;
  for (const Json& event : trace) {
    if (event["ph"] == "M" || event["pid"] != pid) continue;
    lines.push_back(event["ph"].get<std::string>() +
                    (event.contains("name") ? " " + event["name"].get<std::string>() : ""));
  }
  return lines;
}

/// The outline without the moments at which single ranks became ready, whose order is free.
std::vector<std::string> without_ranks(std::vector<std::string> lines) {
  std::erase_if(lines, [](const std::string& line) { return line == "X 0" || line == "X 1"; });
  return lines;
}

/// In this format, only rank 0 writes.
Config horovods_config() {
  Config config = quiet_config();
  config.timeline_format = TimelineFormat::horovod;
  return config;
}

}  // namespace

TEST_CASE("statistics count tensors, batches, bytes and messages") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Counters {
    std::uint64_t submitted, completed, failed, batches, bytes, sent, received;
    double negotiation, execution;
  };
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<float> x(100);
    for (int i = 0; i < 7; ++i) must(self.allreduce(x, {.name = "x"}));
    std::vector<float> wrong(static_cast<std::size_t>(self.rank() + 1));
    (void)must_fail(self.allreduce(wrong, {.name = "wrong"}));
    must(self.barrier());
    const reports::Statistics& s = self.runtime().statistics();
    return Counters{
        s.tensors_submitted, s.tensors_completed, s.tensors_failed,      s.batches,          s.bytes,
        s.messages_sent,     s.messages_received, s.negotiation_seconds, s.execution_seconds};
  });
  for (const Counters& one : seen) {
    CHECK(one.submitted == 9);
    CHECK(one.completed == 9);
    CHECK(one.failed == 1);
    CHECK(one.batches == 7);
    CHECK(one.bytes == 7 * 400);
    CHECK(one.sent >= 9);
    CHECK(one.received >= 9);
    CHECK(one.negotiation > 0);
    CHECK(one.execution > 0);
  }
}

TEST_CASE("the timeline of a job is a Chrome trace with the events of each tensor in order") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const TempFile file;
  Config config = horovods_config();
  config.timeline = file.path();
  run_on_ranks(backend, 2, config, [&](Rank& self) {
    std::vector<float> alone(100, 1.0f);
    must(self.allreduce(alone, {.name = "alone"}));
    std::vector<int> rows(static_cast<std::size_t>(self.rank() + 1));
    (void)must(self.allgather(rows, {.name = "rows"}));
    must(self.broadcast(alone, {.name = "weights"}));
    std::vector<float> wrong(static_cast<std::size_t>(self.rank() + 1));
    (void)must_fail(self.allreduce(wrong, {.name = "wrong"}));
  });
  const Json trace = file.read();
  CAPTURE(trace.dump(1));
  const auto activity = [&backend](const std::string& collective) {
    const bool is_of_threads = backend.activity.empty();
    return "B " + (is_of_threads ? "THREADS_COLLECTIVE" : backend.activity + collective);
  };
  const auto lines = outline(trace, "alone");
  CHECK(std::ranges::count(lines, "X 0") == 1);
  CHECK(std::ranges::count(lines, "X 1") == 1);
  CHECK(without_ranks(lines) == std::vector<std::string>{"B NEGOTIATE_ALLREDUCE", "E", "B ALLREDUCE",
                                                         "B QUEUE", "E", activity("ALLREDUCE"), "E", "E"});
  CHECK(without_ranks(outline(trace, "rows")) ==
        std::vector<std::string>{"B NEGOTIATE_ALLGATHER", "E", "B ALLGATHER", "B QUEUE", "E",
                                 "B ALLOCATE_OUTPUT", "E", activity("ALLGATHER"), "E", "E"});
  CHECK(without_ranks(outline(trace, "weights")) == std::vector<std::string>{"B NEGOTIATE_BROADCAST", "E",
                                                                             "B BROADCAST", "B QUEUE", "E",
                                                                             activity("BCAST"), "E", "E"});
  CHECK(without_ranks(outline(trace, "wrong")) == std::vector<std::string>{"B NEGOTIATE_ALLREDUCE", "E"});
}

TEST_CASE(
    "a timeline holds what is submitted after its start from the first moment, what was before not at all") {
  const TempFile file;
  for (int round = 0; round < 50; ++round) {
    run_on_ranks(every_backend().back(), 2, horovods_config(), [&](Rank& self) {
      std::vector<float> x(4);
      if (self.rank() == 0) {
        std::vector<float> y(4);
        auto early = self.allreduce_async(y, {.name = "early"});
        must(self.runtime().start_timeline(file.path(), false));
        auto after = self.allreduce_async(x, {.name = "after"});
        must(self.barrier());
        must(early.wait());
        must(after.wait());
        must(self.runtime().stop_timeline());
      } else {
        must(self.barrier());
        must(self.allreduce(x, {.name = "early"}));
        must(self.allreduce(x, {.name = "after"}));
      }
    });
    const Json trace = file.read();
    CAPTURE(round, trace.dump(1));
    const auto early = outline(trace, "early");
    const auto after = outline(trace, "after");
    REQUIRE(std::ranges::count(early, "B NEGOTIATE_ALLREDUCE") == 0);
    REQUIRE(std::ranges::count(early, "X 0") + std::ranges::count(early, "X 1") == 0);
    // A tensor is queued once in the lane, and once more if the device still ran the batch before.
    REQUIRE(after.size() == 8 + 2 * static_cast<std::size_t>(std::ranges::count(after, "B QUEUE")));
    REQUIRE(after[0] == "B NEGOTIATE_ALLREDUCE");
    REQUIRE(std::ranges::count(after, "X 0") == 1);
    REQUIRE(std::ranges::count(after, "X 1") == 1);
  }
}

TEST_CASE("the timeline of fused tensors shows packing and unpacking") {
  Config config = quiet_config();
  const auto backends = every_backend();
  if (std::ranges::none_of(backends, [](const Setup& one) { return one.name == "gloo"; }))
    DABKE_SKIP("there is no Gloo in this build");
  const TempFile file;
  config.timeline = file.path();
  config.timeline_format = TimelineFormat::horovod;
  run_on_ranks(setup_named("gloo"), 2, config, [&](Rank& self) {
    std::vector<float> a(100);
    std::vector<float> b(200);
    must(self.start(CollectiveKind::allreduce, {{view_of(a), {}, "a"}, {view_of(b), {}, "b"}}).wait());
  });
  const auto lines = outline(file.read(), "a");
  CAPTURE(lines);
  CHECK(std::ranges::count(lines, "B MEMCPY_IN_FUSION_BUFFER") == 1);
  CHECK(std::ranges::count(lines, "B GLOO_ALLREDUCE") == 1);
  CHECK(std::ranges::count(lines, "B MEMCPY_OUT_FUSION_BUFFER") == 1);
}

TEST_CASE("the timeline can be started and stopped while the job runs, and started only once") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const TempFile file;
  const auto seen = run_on_ranks(backend, 2, horovods_config(), [&](Rank& self) {
    std::vector<float> x(4);
    must(self.allreduce(x, {.name = "before"}));
    must(self.runtime().start_timeline(file.path(), true));
    const Status again = self.runtime().start_timeline("/tmp/dabke_other_trace", false);
    must(self.barrier());
    must(self.allreduce(x, {.name = "during"}));
    must(self.barrier());
    must(self.runtime().stop_timeline());
    must(self.runtime().stop_timeline());
    must(self.barrier());
    must(self.allreduce(x, {.name = "after"}));
    return again;
  });
  CHECK(seen[0].code() == Code::invalid_argument);
  const Json trace = file.read();
  CHECK(outline(trace, "before").empty());
  CHECK(outline(trace, "during").size() >= 8);
  CHECK(outline(trace, "after").empty());
}

}  // namespace dabke::test

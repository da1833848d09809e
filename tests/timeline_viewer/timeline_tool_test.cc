// dabke-timeline on the records of real jobs.
#include <sys/wait.h>
#include <zlib.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/base/text/counted.h"
#include "tests/facts.h"
#include "tests/multiproc/negotiation_jobs.h"
#include "tests/trace_form.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

Finished tool(std::vector<std::string> arguments) {
  return LauncherRun(std::move(arguments), {.program = DABKE_TIMELINE_TOOL}).finish();
}

Finished record(const std::string& path, int ranks, const std::string& scenario,
                std::vector<std::string> environment = {}) {
  environment.push_back("DABKE_TIMELINE=" + path);
  return JobRun({"shm", {"", ranks}, {CPP_WORKER, scenario}, environment}).finish();
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// True if all ranks have finished, and stderr has only the line about the timeline.
bool is_recorded(const Finished& finished, const std::string& path, int ranks) {
  // PATH may have a dabke-timeline.
  const auto said_with = [&](const std::string& tool) {
    return fmt::format(
        "dabkerun: timeline: '{0}' has {1} of {2}; '{3} view {0}' shows it with its findings\n", path, ranks,
        counted(ranks, "rank"), tool);
  };
  const bool is_said =
      finished.error == said_with(DABKE_TIMELINE_TOOL) || finished.error == said_with("dabke-timeline");
  return all_done({finished.exit_code, finished.out, is_said ? "" : finished.error}, ranks);
}

/// Counts the events of that name, by process.
std::map<int, int> count(const Json& trace, const std::string& phase, const std::string& name) {
  std::map<int, int> by_rank;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase && event["name"] == name) ++by_rank[event["pid"]];
  }
  return by_rank;
}

/// A file's content, uncompressed where it is compressed.
std::string plain_bytes_of(const std::string& path) {
  const gzFile file = ::gzopen(path.c_str(), "rb");
  std::string all, some(1 << 16, '\0');
  for (int got = 0; (got = ::gzread(file, some.data(), 1 << 16)) > 0;)
    all.append(some, 0, static_cast<std::size_t>(got));
  ::gzclose_r(file);
  return all;
}

void check_form(const Json& trace) { CHECK(test::form_faults(trace) == std::vector<std::string>()); }

}  // namespace

TEST_CASE("merge makes one trace of all ranks of a real job") {
  const int ranks = GENERATE(2, 4);
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  REQUIRE(is_recorded(record(path, ranks, "recorded"), path, ranks));
  const Finished checked = tool({"check", path});
  CHECK(checked.out == fmt::format("{} ranks: nothing is wrong\n", ranks));
  CHECK(checked.exit_code == 0);

  const std::string by_dabkerun = bytes_of(path);
  std::filesystem::remove(path);
  const Finished merged = tool({"merge", path});
  CHECK(merged.exit_code == 0);
  CHECK(merged.error == "");
  CHECK(bytes_of(path) == by_dabkerun);
  CHECK_THAT(merged.out, Contains(fmt::format("trace.json: {0} of {0} ranks", ranks)));
  const Json trace = Json::parse(bytes_of(path));
  check_form(trace);
  std::map<int, int> each;
  for (int rank = 0; rank < ranks; ++rank) each[rank] = 200;
  CHECK(count(trace, "X", "forward") == each);
  CHECK(count(trace, "i", "STEP") == each);
  CHECK(count(trace, "X", "NEGOTIATE_ALLREDUCE") == each);
  std::map<int, int> twice;  // in the lane and in the tensor's row
  for (const auto& [rank, number] : each) twice[rank] = 2 * number;
  CHECK(count(trace, "X", "ALLREDUCE") == twice);
  int arrows = 0;
  for (const auto& [rank, number] : count(trace, "f", "last ready")) arrows += number;
  CHECK(arrows == 200 * (ranks - 1));
  CHECK(trace["otherData"]["clocks"].size() == static_cast<std::size_t>(ranks));
  CHECK(trace["otherData"]["missing"].empty());

  const std::string compressed = folder.path() + "/again.json.gz";
  REQUIRE(tool({"merge", path, "-o", compressed}).exit_code == 0);
  check_form(Json::parse(plain_bytes_of(compressed)));
}

TEST_CASE(
    "an importer places each slice of tensors of several sets in flight and of spans of several threads") {
  const int ranks = GENERATE(2, 4);
  const std::string backend = GENERATE("shm", "tcp");
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  const Finished job = record(path, ranks, "recorded-in-flight", {"DABKE_CPU_OPERATIONS=" + backend});
  CAPTURE(ranks, backend, job.exit_code, job.out, job.error);
  REQUIRE(is_recorded(job, path, ranks));
  const Json trace = Json::parse(bytes_of(path));
  test::TraceForm form;
  form.check(trace["traceEvents"]);
  CHECK(form.faults() == std::vector<std::string>());
  CHECK(form.written() == form.imported());
  std::map<int, int> spans, tensors;  // by rank; one set has the lower half, another all but rank 0
  for (int rank = 0; rank < ranks; ++rank) {
    spans[rank] = 3 * 50;
    tensors[rank] = (14 + (rank < ranks / 2 ? 6 : 0) + (rank > 0 ? 6 : 0)) * 50;
  }
  CHECK(count(trace, "X", "outer") == spans);
  CHECK(count(trace, "X", "inner") == spans);
  CHECK(count(trace, "X", "NEGOTIATE_ALLREDUCE") == tensors);
  std::map<std::pair<int, int>, std::set<int>> sets;  // process sets of the tensors in each row
  std::map<std::pair<int, int>, std::string> rows;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") rows[{event["pid"], event["tid"]}] = event["args"]["name"];
    if (event["ph"] == "X" && event["args"].contains("shape"))
      sets[{event["pid"], event["tid"]}].insert(event["args"]["set"].get<int>());
  }
  for (const auto& [row, of_row] : sets) {
    CAPTURE(row, rows.at(row));
    CHECK(of_row.size() == 1);
    CHECK(rows.at(row).substr(0, 1) == "t");
  }
  CHECK(tool({"report", path}).exit_code == 0);
}

TEST_CASE("timelines that threads of all ranks start and stop again and again are whole") {
  const int ranks = GENERATE(2, 4);
  const std::string format = GENERATE("records", "horovod");
  const TemporaryDirectory folder;
  const char* const given = std::getenv("DABKE_TEST_PERIODS");
  const int periods = given != nullptr ? std::atoi(given) : 30;
  const Finished job =
      JobRun({"shm",
              {"", ranks},
              {CPP_WORKER, "timelines-again-and-again"},
              {"DABKE_TEST_FOLDER=" + folder.path(), fmt::format("DABKE_TEST_PERIODS={}", periods),
               "DABKE_TIMELINE_FORMAT=" + format}})
          .finish();
  CAPTURE(ranks, format, job.exit_code, job.out, job.error);
  REQUIRE(all_done(job, ranks));
  for (int period = 0; period < periods; ++period) {
    CAPTURE(period);
    const Json trace = Json::parse(bytes_of(fmt::format("{}/closed-{}", folder.path(), period)));
    check_form(trace);
    if (format == "horovod") continue;
    CHECK(trace["otherData"]["missing"].empty());
    CHECK(count(trace, "X", "inside").size() == static_cast<std::size_t>(ranks));
  }
}

TEST_CASE("a timeline starts again on a path while rank 0 still makes the trace of the one before") {
  const int ranks = GENERATE(2, 4);
  const TemporaryDirectory folder;
  const Finished job = JobRun({"shm",
                               {"", ranks},
                               {CPP_WORKER, "timelines-on-one-path"},
                               {"DABKE_TEST_FOLDER=" + folder.path(), "DABKE_TEST_PERIODS=40"}})
                           .finish();
  CAPTURE(ranks, job.exit_code, job.out, job.error);
  CHECK(all_done(job, ranks));
  const Json trace = Json::parse(bytes_of(folder.path() + "/trace"));
  check_form(trace);
  CHECK(trace["otherData"]["missing"].empty());
  CHECK(count(trace, "X", "step").size() == static_cast<std::size_t>(ranks));
}

TEST_CASE("Ctrl-C amid writing leaves a trace that loads") {
  const std::string format = GENERATE("records", "horovod");
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  LauncherSetup setup;
  setup.environment = {"DABKE_TIMELINE=" + path, "DABKE_TIMELINE_FORMAT=" + format,
                       "DABKE_TEST_FILE=" + path + (format == "records" ? ".rank0" : "")};
  LauncherRun run({"-np", "2", CPP_WORKER, "recorded-on-and-on"}, setup);
  REQUIRE(run.wait_for_output("writes"));
  run.signal(SIGINT);
  const Finished job = run.finish();
  CAPTURE(format, job.exit_code, job.out, job.error);
  CHECK(job.exit_code == 128 + SIGINT);
  CHECK(tool({"report", path}).exit_code == 0);
  if (format == "horovod") return;  // rank 0 was ended while it wrote; a report of what is there must work
  // The signal may reach one rank later. That rank then outlives the other, and closes its file.
  CHECK_THAT(job.error, Contains(path + ".rank0' was") || Contains(path + ".rank1' was"));
  const Json trace = Json::parse(bytes_of(path));
  check_form(trace);
  CHECK(count(trace, "i", "STEP").size() == 2);
}

TEST_CASE("a file that may grow no further is told as such by rank and dabkerun, and what is there loads") {
  const std::string format = GENERATE("records", "horovod");
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  // The limit also applies to shared memory, so the job uses none.
  const Finished job =
      JobRun({"tcp",
              {"", 2},
              {"sh", "-c", "ulimit -f 50; exec \"$0\" \"$@\"", CPP_WORKER, "recorded-and-checked"},
              {"DABKE_TIMELINE=" + path, "DABKE_TIMELINE_FORMAT=" + format, "DABKE_CPU_OPERATIONS=tcp"}})
          .finish();
  CAPTURE(format, job.exit_code, job.out, job.error);
  CHECK(job.exit_code == 0);
  CHECK(all_done({job.exit_code, job.out, ""}, 2));
  CHECK_THAT(job.error, Contains("File too large") && !Contains("killed"));
  if (format == "records") {
    CHECK_THAT(job.error, Contains("dabkerun: timeline: rank 0: '" + path +
                                   ".rank0' could not be written completely: File too large"));
  }
  const Json trace = Json::parse(bytes_of(path));
  check_form(trace);
  CHECK(tool({"report", path}).exit_code == 0);
}

TEST_CASE("a timeline that could not be written is told once for each file, and fails no job that is done") {
  const std::string format = GENERATE("records", "horovod");
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  std::vector<std::string> files{path};
  if (format == "records") files = {path + ".rank0", path + ".rank1"};
  for (const std::string& file : files) std::filesystem::create_symlink("/dev/full", file);
  const Finished job = record(path, 2, "recorded-and-checked", {"DABKE_TIMELINE_FORMAT=" + format});
  CAPTURE(format, job.out, job.error);
  CHECK(job.exit_code == 0);
  CHECK(all_done({job.exit_code, job.out, ""}, 2));
  const std::string& error = job.error;
  std::size_t warnings = 0;
  for (auto at = error.find("warning]"); at != error.npos; at = error.find("warning]", at + 1)) ++warnings;
  CHECK(warnings == files.size());
  for (const std::string& file : files)
    CHECK_THAT(error, Contains("writing the timeline '" + file + "' failed") &&
                          Contains("No space left on device") && Contains("Free space there"));
}

TEST_CASE("a timeline of later steps is told at once that its path cannot be written, and fails no job") {
  const std::string format = GENERATE("records", "horovod");
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/missing/trace.json";
  const std::size_t writers = format == "records" ? 2 : 1;
  const Finished job = record(path, 2, "recorded-and-checked",
                              {"DABKE_TIMELINE_FORMAT=" + format, "DABKE_TIMELINE_STEPS=500:510"});
  CAPTURE(format, job.exit_code, job.out, job.error);
  CHECK(job.exit_code == 0);
  const std::string file = path + (format == "records" ? ".rank0" : "");
  CHECK_THAT(job.error, Contains("cannot write the timeline to '" + file + "': No such file or directory") &&
                            Contains("before the first step of DABKE_TIMELINE_STEPS=500:510"));
  std::size_t warnings = 0;
  for (auto at = job.error.find("cannot write"); at != job.error.npos;
       at = job.error.find("cannot write", at + 1))
    ++warnings;
  CHECK(warnings == writers);
}

TEST_CASE("dabkerun merges a job that failed too, whichever rank was killed, and keeps its exit code") {
  const int victim = GENERATE(0, 1);
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  const Finished job =
      record(path, 2, "recorded-until-killed", {fmt::format("DABKE_TEST_VICTIM={}", victim)});
  CAPTURE(victim, job.error);
  CHECK(job.exit_code == 128 + SIGKILL);
  CHECK_THAT(job.error,
             Contains(fmt::format("dabkerun: timeline: rank {0}: '{1}.rank{0}' was", victim, path)) &&
                 Contains("dabkerun: timeline: '" + path + "' has 2 of 2 ranks"));
  check_form(Json::parse(bytes_of(path)));
}

TEST_CASE("where there are no records dabkerun says so, with the command that merges them elsewhere") {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  const Finished job = LauncherRun({"-np", "2", "--timeline-filename", path, "--timeline-format", "records",
                                    "sh", "-c", "unset DABKE_TIMELINE; exec \"$0\" recorded", CPP_WORKER})
                           .finish();
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.error, Contains("found no records of this job") && Contains("dabke-timeline merge " + path));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("merge compresses where the name ends with .gz, and takes single files") {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  REQUIRE(is_recorded(record(path, 2, "recorded"), path, 2));
  const std::string compressed = folder.path() + "/some.json.gz", plain = folder.path() + "/some.json";
  REQUIRE(tool({"merge", path + ".rank1", path + ".rank0", "-o", compressed}).exit_code == 0);
  REQUIRE(tool({"merge", path, "--output", plain}).exit_code == 0);
  const std::string want = bytes_of(plain);
  CHECK(bytes_of(compressed).substr(0, 2) == "\x1f\x8b");
  CHECK(bytes_of(compressed).size() < want.size() / 3);
  CHECK(plain_bytes_of(compressed) == want);
}

TEST_CASE("what a killed rank has left is merged, and its missing tail is named") {
  const int ranks = GENERATE(2, 4);
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  const Finished job = record(path, ranks, "recorded-until-killed");
  CAPTURE(job.out, job.error);
  REQUIRE(job.exit_code == 128 + SIGKILL);
  const Finished merged = tool({"merge", path});
  CAPTURE(merged.out, merged.error);
  REQUIRE(merged.exit_code == 0);
  CHECK_THAT(merged.error, Contains("rank 1: '" + path + ".rank1' was"));
  const Json trace = Json::parse(bytes_of(path));
  check_form(trace);
  CHECK(count(trace, "i", "TAIL_MISSING")[1] == 1);
  auto steps = count(trace, "i", "STEP");
  CHECK(steps[1] > 50);
  CHECK(steps[0] >= steps[1] - 1);
  CHECK(count(trace, "i", "TAIL_MISSING").size() == 1);  // the other ranks have closed their files
  const Finished checked = tool({"check", path});
  CHECK(checked.exit_code == 1);
  CHECK_THAT(checked.out, Contains("rank 1: '" + path + ".rank1' was"));
}

TEST_CASE("truncated, damaged and forged files are refused or merged up to there, each by name") {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  REQUIRE(is_recorded(record(path, 2, "recorded"), path, 2));
  const std::string file = path + ".rank1", whole = bytes_of(file);
  const auto write = [&](const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; };

  write(whole.substr(0, whole.size() / 2));
  const Finished cut = tool({"merge", path});
  CHECK(cut.exit_code == 0);
  CHECK_THAT(cut.error, Contains("rank 1: '" + file + "' was cut off in the middle of a block"));

  write("");
  const Finished empty = tool({"merge", path});
  CHECK(empty.exit_code == 0);
  CHECK_THAT(empty.error,
             Contains("'" + file + "' has only 0 bytes") && Contains("of 2 ranks, no records exist of: 1"));

  std::filesystem::remove(path);
  std::string flipped = whole;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  write(flipped);
  for (const char* command : {"merge", "check"}) {
    const Finished damaged = tool({command, path});
    CHECK(damaged.exit_code == 1);
    CHECK_THAT(damaged.error, Contains("'" + file + "' is damaged at byte"));
  }
  CHECK_FALSE(std::filesystem::exists(path));

  write(R"([{"ph":"X","name":"no records at all, of another tool"}])");
  CHECK_THAT(tool({"merge", path}).error, Contains("'" + file + "' is not a file of timeline records"));
  CHECK(tool({"merge", file}).exit_code == 1);

  const std::string other = folder.path() + "/other.json";
  REQUIRE(is_recorded(record(other, 2, "recorded"), other, 2));
  write(bytes_of(other + ".rank1"));
  const Finished stranger = tool({"merge", path, "--output", path});
  CHECK_THAT(stranger.error,
             Contains(".rank0' is left out: it belongs to job"));  // the stranger's file is newer
  CHECK(tool({"merge", path + ".rank0", file}).exit_code == 1);
}

TEST_CASE("a command line that makes no sense says so in one line, and help and version are there") {
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"mend"}, {"merge"}, {"merge", "--colour", "x"}, {"check"}}) {
    const Finished finished = tool(wrong);
    CHECK(finished.exit_code == 2);
    CHECK_THAT(finished.error, Contains("dabke-timeline: ") && Contains("see dabke-timeline --help"));
    CHECK(std::ranges::count(finished.error, '\n') == 1);
  }
  CHECK(tool({"reprot", "x"}).error ==
        "dabke-timeline: reprot: unknown command; did you mean report; see dabke-timeline --help\n");
  CHECK_THAT(tool({"mend"}).error,
             Contains("mend: unknown command; commands are merge, check, report, diff,"));
  CHECK_THAT(tool({"--help"}).out, Contains("merge") && Contains("check"));
  CHECK_THAT(tool({"--help"}).out, Contains("dabke-timeline view trace.json"));
  CHECK_THAT(tool({"merge", "--help"}).out,
             Contains("Usage: dabke-timeline merge") && Contains("--output") && !Contains("As a rule"));
  CHECK_THAT(tool({"--version"}).out, Contains("dabke-timeline "));
  CHECK_THAT(tool({"merge", "/nowhere/trace.json"}).error, Contains("found no records of a job"));
}

}  // namespace dabke::test

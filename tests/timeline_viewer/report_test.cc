// dabke-timeline report and diff, on real jobs with a late rank and on traces
// of other tools, complete and damaged.
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/facts.h"
#include "tests/multiproc/negotiation_jobs.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

Finished tool(std::vector<std::string> arguments) {
  return LauncherRun(std::move(arguments), {.program = DABKE_TIMELINE_TOOL}).finish();
}

Json report(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "report");
  arguments.push_back("--json");
  const Finished finished = tool(std::move(arguments));
  CAPTURE(finished.error);
  REQUIRE(finished.exit_code == 0);
  return Json::parse(finished.out);
}

std::string written(const TemporaryDirectory& folder, const std::string& bytes,
                    const std::string& name = "some.json") {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> ids(const Json& report) {
  std::vector<std::string> all;
  for (const Json& finding : report["findings"]) all.push_back(finding["id"]);
  return all;
}

bool has(const Json& report, const std::string& id) {
  const auto all = ids(report);
  return std::ranges::find(all, id) != all.end();
}

/// The report of a job with a late rank. That rank itself measures how long it slept, and how late it was.
struct LateJob {
  Json report;
  std::string path;
  double asked_ms = 0, slept_ms = 0, late_ms = 0;
};

double number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  REQUIRE(at != std::string::npos);
  return std::atof(text.c_str() + at + words.size());
}

/// Runs a job in which a rank is late by `ms`. On a busy machine, by more,
/// until the ranks report that it is clear.
LateJob run_late(const TemporaryDirectory& folder, int ranks, double ms, const std::string& who) {
  LateJob job{.report = {}, .path = folder.path() + "/trace.json", .asked_ms = ms};
  Finished finished;
  for (int i = 0; i < 8; ++i) {
    if (i > 0) job.asked_ms = std::min(2 * job.asked_ms, 320.0);
    std::vector<std::string> environment{"DABKE_TIMELINE=" + job.path,
                                         fmt::format("DABKE_TEST_LATE_MS={}", job.asked_ms)};
    if (!who.empty()) environment.push_back("DABKE_TEST_LATE_RANK=" + who);
    finished = JobRun({"shm", {"", ranks}, {CPP_WORKER, "late-rank"}, environment}).finish();
    CAPTURE(finished.out, finished.error);
    REQUIRE(finished.exit_code == 0);
    if (finished.out.find("the lateness is clear") != std::string::npos) break;
  }
  job.slept_ms = number_after(finished.out, "slept ");
  job.late_ms = number_after(finished.out, "late by ");
  job.report = report({job.path});
  return job;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

/// A timeline as Horovod writes it: rank 1 is ready `late_us(step)` after rank 0 with each of two tensors.
std::string horovod_timeline(
    const std::string& name = "grad", int steps = 20,
    const std::function<int(int)>& late_us = [](int) { return 5000; }) {
  std::string text = "[\n";
  for (int tensor = 1; tensor <= 2; ++tensor) {
    text +=
        fmt::format(R"({{"name": "process_name", "ph": "M", "pid": {0}, "args": {{"name": "{1}.{0}"}}}},)",
                    tensor, name) +
        "\n";
  }
  for (int step = 0; step < steps; ++step) {
    const int at = 100'000 * step, late = late_us(step);
    const auto both = [&](const char* form, int when) {
      for (int tensor = 1; tensor <= 2; ++tensor)
        text += fmt::format(fmt::runtime(form), when + tensor, tensor) + ",";
    };
    both(R"({{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": {}, "pid": {}}})", at);
    both(R"({{"ph": "X", "name": "0", "ts": {}, "pid": {}, "dur": 0}})", at + 10);
    both(R"({{"ph": "X", "name": "1", "ts": {}, "pid": {}, "dur": 0}})", at + 10 + late);
    both(R"({{"ph": "E", "ts": {}, "pid": {}}})", at + 20 + late);
    both(R"({{"ph": "B", "name": "ALLREDUCE", "ts": {}, "pid": {}}})", at + 100 + late);
    both(R"({{"ph": "B", "name": "MEMCPY_IN_FUSION_BUFFER", "ts": {}, "pid": {}}})", at + 200 + late);
    both(R"({{"ph": "E", "ts": {}, "pid": {}}})", at + 300 + late);
    both(R"({{"ph": "B", "name": "NCCL_ALLREDUCE", "ts": {}, "pid": {}}})", at + 400 + late);
    both(R"({{"ph": "E", "ts": {}, "pid": {}}})", at + 2400 + late);
    both(R"({{"ph": "E", "ts": {}, "pid": {}, "args": {{"dtype": "float32", "shape": "[1000, 10]"}}}})",
         at + 2500 + late);
    text += "\n";
  }
  text.resize(text.size() - 2);
  return text + "]\n";
}

}  // namespace

TEST_CASE("a rank that is late in every step is named, with what it costs, on cached steps too") {
  const auto [ranks, late, ms] = GENERATE(table<int, int, double>({{2, 1, 5.0}, {4, 2, 30.0}}));
  const TemporaryDirectory folder;
  const LateJob job = run_late(folder, ranks, ms, std::to_string(late));
  CAPTURE(job.report.dump(1));
  CHECK(job.report["steps"].size() == 59);  // the first step has no beginning
  CHECK(job.report["findings"][0]["id"] == "late-rank");
  CHECK_THAT(job.report["findings"][0]["title"].get<std::string>(), Contains(fmt::format("Rank {} ", late)));
  CHECK(job.report["findings"][0]["evidence"][0]["rank"] == late);
  REQUIRE(has(job.report, "long-span"));
  const Json span =
      *std::ranges::find(job.report["findings"], "long-span", [](const Json& one) { return one["id"]; });
  CHECK(span["title"] == fmt::format("'load' takes longer on rank {}", late));
  CHECK(job.report["cost"][0]["rank"] == late);
  CHECK(job.report["cost"][0]["last_share"].get<double>() > 0.8);
  auto by_step =
      job.report["lateness"]["caused_us"][static_cast<std::size_t>(late)].get<std::vector<double>>();
  by_step.erase(by_step.begin());  // figures leave the first step out
  const double caused_ms = median(by_step) / 1e3;
  CAPTURE(caused_ms, job.late_ms, job.slept_ms);
  CHECK(job.slept_ms >= job.asked_ms);
  CHECK(caused_ms == Approx(job.late_ms).epsilon(0.1));
  CHECK(job.report["cost"][0]["caused_median_us"].get<double>() == Approx(1e3 * caused_ms));
  const auto said = job.report["findings"][0]["text"].get<std::string>();
  CAPTURE(said);
  CHECK(number_after(said, "cost the others ") == Approx(job.late_ms).epsilon(0.1));

  // The merged trace and the records give the same report.
  REQUIRE(std::filesystem::exists(job.path));
  const Json records = report({job.path + ".rank0", job.path + ".rank1"});
  const Json trace = Json::parse(bytes_of(job.path))["otherData"]["report"];
  CHECK(ids(trace) == ids(job.report));
  CHECK(trace["fusion"] == job.report["fusion"]);
  CHECK(std::abs(trace["cost"][0]["caused_us"].get<double>() -
                 job.report["cost"][0]["caused_us"].get<double>()) < 50);
  CHECK(records["ranks"] == Json({0, 1}));

  const Finished text = tool({"report", job.path});
  CHECK_THAT(text.out, Contains(fmt::format("Rank {} delays the others", late)) && Contains("Last ranks\n"));
}

/// A trace of a rank on CPUs, as PyTorch's profiler writes it: computation, then communication. They overlap
/// for `hidden_us`. No step is marked, but the optimizer steps.
std::string profile(int rank, int steps, int communication_us, int hidden_us) {
  std::string text = fmt::format(R"({{"distributedInfo": {{"rank": {}}}, "traceEvents": [)", rank);
  for (int step = 0; step < steps; ++step) {
    const int at = 100'000 * step;
    text += fmt::format(
        R"({{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": {}, "dur": 30000}},
{{"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": {}, "dur": {}}},
)"
        R"({{"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#SGD.step", "pid": 1, "tid": 1, )"
        R"("ts": {}, "dur": 1000}},)",
        at, at + 30000 - hidden_us, communication_us, at + 99000);
  }
  text.pop_back();
  return text + "]}";
}

bool has_high(const Json& report) {
  return std::ranges::any_of(report["findings"], [](const Json& one) { return one["severity"] == "high"; });
}

TEST_CASE(
    "of ten traces the five that have a fault are told with it, and nothing grave is said of the others") {
  const TemporaryDirectory folder;
  const auto of_text = [&](const std::string& text) { return report({written(folder, text)}); };
  const auto of_job = [&](const std::string& scenario, int steps) {
    const std::string path = folder.path() + "/job.json";
    const Finished finished = JobRun({"shm",
                                      {"", 2},
                                      {CPP_WORKER, scenario},
                                      {"DABKE_TIMELINE=" + path, fmt::format("DABKE_TEST_STEPS={}", steps)}})
                                  .finish();
    CAPTURE(finished.out, finished.error);
    REQUIRE(finished.exit_code == 0);
    return report({path});
  };
  SECTION("a rank that is late") {
    const Json late = of_text(horovod_timeline());
    CHECK(late["findings"][0]["id"] == "late-rank");
    CHECK(late["findings"][0]["title"] == "Rank 1 delays the others");
  }
  SECTION("communication that nothing hides, in profiles without marked steps") {
    const Json exposed = report({written(folder, profile(0, 12, 62'000, 0), "p0.json"),
                                 written(folder, profile(1, 12, 62'000, 0), "p1.json")});
    CAPTURE(exposed.dump(1));
    REQUIRE(has(exposed, "exposed"));
    CHECK(exposed["findings"][0]["severity"] == "high");
    CHECK_THAT(exposed["findings"][0]["text"].get<std::string>(),
               Contains("62.0 ms per step") && Contains("62 %"));
  }
  SECTION("a tensor that failed") {
    const Json failed = of_job("two-calls", 1);
    CAPTURE(failed.dump(1));
    REQUIRE(failed["findings"][0]["id"] == "failed");
    CHECK(failed["findings"][0]["title"] == "Tensor 'bad' failed");
    CHECK_THAT(
        failed["findings"][0]["text"].get<std::string>(),
        Contains("On ranks 0, 1: Mismatched shape for 'bad'") || Contains("On ranks 1, 0: Mismatched"));
  }
  SECTION("small tensors that travel one by one") {
    const Json small = of_job("one-by-one", 6);
    CAPTURE(small.dump(1));
    CHECK(has(small, "small-batches"));
  }
  SECTION("three steps, of which the first is slow") {
    const Json few = of_text(horovod_timeline("grad", 4, [](int step) { return step == 0 ? 90'000 : 50; }));
    CAPTURE(few.dump(1));
    CHECK_FALSE(has_high(few));
  }
  SECTION("two calls") {
    const Json two = of_job("two-calls", 0);
    CAPTURE(two.dump(1));
    CHECK_FALSE(has_high(two));
    CHECK(has(two, "too-short"));
    CHECK_FALSE(has(two, "late-rank"));
  }
  SECTION("a job that starts slowly and runs evenly") {
    const Json even = of_text(horovod_timeline("grad", 20, [](int step) { return step == 0 ? 90'000 : 50; }));
    CAPTURE(even.dump(1));
    CHECK_FALSE(has_high(even));
    CHECK_FALSE(has(even, "late-rank"));
  }
  SECTION("communication that computation hides") {
    const Json hidden = report({written(folder, profile(0, 12, 25'000, 25'000))});
    CAPTURE(hidden.dump(1));
    CHECK_FALSE(has_high(hidden));
    CHECK_FALSE(has(hidden, "exposed"));
  }
  SECTION("one late step of many") {
    const Json once =
        of_text(horovod_timeline("grad", 40, [](int step) { return step == 17 ? 60'000 : 50; }));
    CAPTURE(once.dump(1));
    CHECK_FALSE(has_high(once));
  }
}

TEST_CASE("by how much the clocks of hosts may be wrong is told with the report") {
  const TemporaryDirectory folder;
  const LateJob job = run_late(folder, 2, 5, "1");
  CHECK(job.report["clock_error_us"] == 0);
  CHECK_THAT(tool({"report", job.path}).out, !Contains("clocks"));
  Json trace = Json::parse(bytes_of(job.path));
  trace["otherData"]["clocks"][1]["error_ns"] = 310'000;
  const std::string path = written(folder, trace.dump());
  CHECK(report({path})["clock_error_us"] == 310);
  CHECK_THAT(tool({"report", path}).out, Contains("times of different hosts may be off by 310 us"));
}

TEST_CASE("where the late rank changes from step to step the cause is unknown") {
  const TemporaryDirectory folder;
  const auto [ranks, ms] = GENERATE(table<int, double>({{2, 5.0}, {4, 30.0}}));
  const LateJob job = run_late(folder, ranks, ms, "");
  CAPTURE(job.report.dump(1));
  CHECK(has(job.report, "unknown-wait"));
  CHECK_FALSE(has(job.report, "late-rank"));
}

TEST_CASE("a timeline of Horovod is read, however broken") {
  const TemporaryDirectory folder;
  const std::string whole = horovod_timeline();
  const Json good = report({written(folder, whole)});
  CAPTURE(good.dump(1));
  CHECK(good["ranks"] == Json({0, 1}));
  CHECK(good["fusion"]["batches"] == 20);
  CHECK(good["fusion"]["tensors"] == 40);
  CHECK(good["cost"][0]["rank"] == 1);
  CHECK(good["cost"][0]["last_share"] == 1.0);
  CHECK(good["cost"][0]["caused_per_step_us"].get<double>() == Approx(5000).epsilon(0.1));
  CHECK(good["findings"][0]["id"] == "late-rank");
  CHECK(good["steps"].size() == 19);
  CHECK(good["steps_are"] == "from one 'grad.1' to the next");
  CHECK(good["sizes"][0]["backend"] == "nccl");
  CHECK(good["notes"].empty());

  const auto broken =
      GENERATE(as<std::string>{}, "no bracket", "cut", "unescaped", "compressed", "in an object");
  CAPTURE(broken);
  std::string path;
  if (broken == "no bracket") {
    path = written(folder, whole.substr(0, whole.size() - 2) + ",\n");
  } else if (broken == "cut") {
    path = written(folder, whole.substr(0, whole.size() - 20));
  } else if (broken == "unescaped") {
    std::string text = whole;
    text.insert(2, R"({"name": "process_name", "ph": "M", "pid": 9, "args": {"name": "a "quoted" name"}},)"
                   "\n");
    path = written(folder, text);
  } else if (broken == "compressed") {
    path = folder.path() + "/some.json.gz";
    const gzFile file = ::gzopen(path.c_str(), "wb");
    ::gzwrite(file, whole.data(), static_cast<unsigned>(whole.size()));
    ::gzclose_w(file);
  } else {
    path = written(folder, R"({"displayTimeUnit": "ms", "traceEvents": )" + whole +
                               R"(, "more": {"deep": [1, {"x": "]}"}]}})");
  }
  const Json read = report({path});
  CHECK(read["cost"][0]["caused_per_step_us"].get<double>() == Approx(5000).epsilon(0.1));
  CHECK(read["fusion"]["batches"].get<int>() >= 19);
  const bool is_damaged = broken == "no bracket" || broken == "cut" || broken == "unescaped";
  CHECK(read["notes"].empty() == !is_damaged);
  if (broken == "unescaped") CHECK_THAT(read["notes"][0].get<std::string>(), Contains("damaged in 1 place"));
}

TEST_CASE("of a trace of PyTorch's profiler exposed communication is what no computation hides") {
  const TemporaryDirectory folder;
  std::string text =
      R"({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3}, "traceEvents": [)";
  for (int step = 0; step < 12; ++step) {
    const double at = 1.7e15 + 1000 * step;
    const auto event = [&](const char* category, const std::string& name, double from, double length) {
      text += fmt::format(
                  R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, "ts": {:.3f}, "dur": {}}},)",
                  category, name, at + from, length) +
              "\n";
    };
    event("user_annotation", fmt::format("ProfilerStep#{}", step), 0, 1000);
    event("kernel", "gemm", 100, 500);
    event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 400, 400);  // 200 us of it overlap the gemm
    event("user_annotation", "nccl:all_reduce", 100, 20);
  }
  text.resize(text.size() - 2);
  const Json read = report({written(folder, text + "]}")});
  CAPTURE(read.dump(1));
  CHECK(read["ranks"] == Json({3}));
  REQUIRE(read["steps"].size() == 12);
  CHECK(read["steps"][5]["communication_us"].get<double>() == Approx(400).margin(1));
  CHECK(read["steps"][5]["exposed_us"].get<double>() == Approx(200).margin(1));
  CHECK(read["steps"][5]["overlapped_us"].get<double>() == Approx(200).margin(1));
  CHECK(has(read, "exposed"));
}

TEST_CASE("of a profile of several ranks nothing is said of who was late, which it does not tell") {
  const TemporaryDirectory folder;
  std::vector<std::string> files;
  for (const int rank : {0, 1}) {
    std::string text = fmt::format(R"({{"distributedInfo": {{"rank": {}}}, "traceEvents": [)", rank);
    for (int step = 0; step < 12; ++step) {
      text += fmt::format(
          R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{0}", "pid": 0, "tid": 7, )"
          R"("ts": {1}, "dur": 1000}},
{{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 0, "tid": 7, "ts": {1}, "dur": 500}},
)"
          R"({{"ph": "X", "cat": "user_annotation", "name": "dabke:all_reduce", "pid": 0, "tid": 8, )"
          R"("ts": {2}, "dur": 400}},)",
          step, 1000 * step, 1000 * step + 400);
    }
    text.pop_back();
    files.push_back(fmt::format("{}/rank{}.json", folder.path(), rank));
    std::ofstream(files.back()) << text << "]}";
  }
  std::vector<std::string> arguments = {"report"};
  arguments.insert(arguments.end(), files.begin(), files.end());
  const Finished finished = tool(arguments);
  CAPTURE(finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out,
             Contains("The application waits for communication") && Contains("This trace does not show") &&
                 Contains("Last ranks: not recorded in this trace") && !Contains("moving the data"));
}

TEST_CASE("what is no trace is refused by name, and hostile files neither crash nor take for ever") {
  const TemporaryDirectory folder;
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    const std::string path = written(folder, bytes);
    const Finished finished = tool({"report", path});
    CAPTURE(bytes.substr(0, 100), finished.out, finished.error);
    CHECK(finished.exit_code == 1);
    CHECK_THAT(finished.error, Contains("'" + path + "'") && Contains(why));
  };
  refused("", "is empty");
  refused("hello", "is not a trace");
  refused("[]", "has no readable event");
  refused("[1, 2, {\"a\": }]", "has no readable event");
  refused(std::string(200'000, '['), "has no readable event");
  refused("[" + std::string(200'000, '{'), "has no readable event");
  refused("[\"" + std::string(100'000'000, 'a'), "has no readable event");
  std::string opened = "[";
  for (int i = 0; i < 500'000; ++i) opened += ",{\"a";
  refused(opened, "has no readable event");
  CHECK_THAT(tool({"report", folder.path() + "/none.json"}).error, Contains("none.json': No such file"));

  const std::string whole = horovod_timeline();
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    std::string bytes = whole;
    for (int flips = 0; flips < 1 + i; ++flips)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    const Finished finished = tool({"report", written(folder, bytes), "--json"});
    CHECK((finished.exit_code == 0 || finished.exit_code == 1));
    if (finished.exit_code == 0) CHECK(Json::parse(finished.out).is_object());
  }
  const Json numbers =
      report({written(folder, R"([{"ph":"X","name":1e999,"pid":{},"tid":[],"ts":1e300,"dur":-5},
{"ph":"X","name":"\u001b[31m<script>","pid":-1,"tid":"x","ts":5,"dur":1e15},{"ph":"B","ts":0}])")});
  CHECK(has(numbers, "not-whole"));
}

TEST_CASE(
    "nothing in a trace moves the cursor of whoever reads its report, and long names are cut between "
    "characters") {
  const TemporaryDirectory folder;
  std::string text = horovod_timeline("\\u001b[31m\\u009b32m\xc2\x9bred");
  text.insert(text.find(".1\""), std::string(60, 'x') + "\xc3\xa4" + std::string(38, 'y'));
  const std::string first =
      written(folder, "{\"otherData\": {\"missing\": [\"\\u001b[2Jgone\"]}, \"traceEvents\": " + text + "}");
  const std::string second = written(folder, horovod_timeline(), "second.json");
  for (const auto& arguments :
       {std::vector<std::string>{"report", first}, {"diff", first, second}, {"diff", second, first}}) {
    const Finished finished = tool(arguments);
    CAPTURE(finished.out);
    CHECK(finished.exit_code == 0);
    CHECK_THAT(finished.out, !Contains("\x1b") && !Contains("\xc2\x9b"));
    CHECK_NOTHROW((void)Json(finished.out).dump());  // dump() throws unless the text is UTF-8
  }
  // The evidence is exact enough to be found on the page: rank 0 is ready at 10 us, rank 1 at 5,010.
  CHECK_THAT(tool({"report", second}).out, Contains(" ms for 5.0 ms: rank 1, 'grad."));
}

TEST_CASE("traces with a rank in common are of different jobs: no report mixes them, and a page shows them") {
  const TemporaryDirectory folder;
  const std::string first = written(folder, horovod_timeline(), "first.json");
  const std::string second = written(folder, horovod_timeline(), "second.json");
  const Finished mixed = tool({"report", first, second});
  CHECK(mixed.exit_code == 1);
  CHECK(mixed.out == "");
  CHECK_THAT(mixed.error, Contains("'" + second + "' has rank 0, as an earlier trace has") &&
                              Contains("dabke-timeline diff"));
  const Finished exported = tool({"export", first, second});
  CAPTURE(exported.error);
  CHECK(exported.out == folder.path() + "/first.html: open it in a browser, on any machine\n");
  const std::string page = bytes_of(folder.path() + "/first.html");
  for (const char* const name : {"first.json", "second.json"})
    CHECK_THAT(page, Contains(fmt::format("<meta name=\"dabke-name\" content=\"{}\">", name)));
  const std::string begin = "<script type=\"application/json\" id=\"dabke-reports\">";
  const std::size_t at = page.find(begin) + begin.size();
  const Json reports = Json::parse(page.substr(at, page.find("</script>", at) - at));
  REQUIRE(reports.size() == 2);
  CHECK(reports[0]["source"] == "first.json");
  CHECK(reports[1]["source"] == "second.json");
}

TEST_CASE("profiles of all ranks are one job, and two profiles of one rank are two") {
  const TemporaryDirectory folder;
  const std::string zero = written(folder, profile(0, 12, 62'000, 0), "p0.json");
  const std::string one = written(folder, profile(1, 12, 62'000, 0), "p1.json");
  CHECK(report({one, zero})["ranks"] == Json({1, 0}));
  const std::string again = written(folder, profile(1, 12, 62'000, 0), "again.json");
  CHECK_THAT(tool({"report", zero, one, again}).error, Contains("'" + again + "' has rank 1"));
}

TEST_CASE("diff tells what became slower") {
  const TemporaryDirectory folder;
  const std::string before = written(folder, horovod_timeline(), "before.json");
  std::string slower = horovod_timeline();
  for (int step = 0; step < 20; ++step) {
    for (int tensor = 1; tensor <= 2; ++tensor) {
      const std::string from =
          fmt::format(R"("ts": {}, "pid": {}}})", 100'000 * step + 7400 + tensor, tensor);
      const std::size_t at = slower.find(from);
      REQUIRE(at != std::string::npos);
      slower.replace(at, from.size(),
                     fmt::format(R"("ts": {}, "pid": {}}})", 100'000 * step + 7480 + tensor, tensor));
    }
  }
  const Finished finished = tool({"diff", before, written(folder, slower, "after.json")});
  CAPTURE(finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, Contains("collective") && Contains("+4.0 %") && Contains("grad.1"));
  CHECK_THAT(finished.out, Catch::StartsWith("before  before.json: 2 ranks, 19 steps\n"
                                             "after   after.json: 2 ranks, 19 steps\n\n") &&
                               !Contains("new: ") && !Contains("gone: "));
  const std::string kernel =
      R"([{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":0,"tid":7,)"
      R"("ts":1,"dur":5}])";
  CHECK_THAT(tool({"diff", before, written(folder, kernel, "one.json")}).out,
             Contains("after   one.json: 1 rank, 0 steps\nNote: the traces have different numbers of ranks "
                      "(2 and 1).\n") &&
                 Contains("gone: Rank 1 delays the others"));
}

}  // namespace dabke::test

// Runs the real program with tiny sizes: the results are right, and printed in a form that others can read.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/skip.h"

namespace dabke::test {
namespace {

using Names = std::set<std::string>;

const std::vector<std::string> kMpis = {PERF_MPIS};
constexpr bool kWithRawGloo = RAW_GLOO;
const std::vector<std::string> kTiny = {"-q", "--runs", "2", "--seconds", "0.001", "-n", "20"};

struct Measured {
  Finished finished;
  nlohmann::json results;

  Names competitors() const {
    Names names;
    for (const auto& row : results) names.insert(row["competitor"].get<std::string>());
    return names;
  }
};

Measured measure(std::vector<std::string> arguments) {
  const TemporaryDirectory place;
  if (!kWithRawGloo) arguments.insert(arguments.begin(), {"--peers", "memcpy,bound"});
  arguments.insert(arguments.end(), kTiny.begin(), kTiny.end());
  arguments.insert(arguments.end(), {"--json", place.path() + "/seen.json"});
  Measured measured{LauncherRun(arguments, {.program = DABKE_PERF}).finish(), {}};
  const auto json = nlohmann::json::parse(place.text_of("seen.json"), nullptr, false);
  if (!json.is_discarded()) measured.results = json["results"];
  return measured;
}

/// The sum over all rows. A row without a result has -1.
std::int64_t wrong_in(const nlohmann::json& results) {
  std::int64_t wrong = 0;
  for (const auto& row : results) {
    const bool is_checked = row["competitor"] != "memcpy" && row["competitor"] != "bound";
    wrong += is_checked ? std::abs(row["wrong"].get<std::int64_t>()) : 0;
  }
  return wrong;
}

}  // namespace

TEST_CASE("dabke-perf: every collective is right over every backend, raw and through the public API") {
  const std::string collective =
      GENERATE("allreduce", "allgather", "broadcast", "reducescatter", "alltoall", "barrier");
  const bool raw = GENERATE(true, false);
  std::vector<std::string> arguments = {collective, "-np", "2",  "-b",    "8",   "-e",
                                        "4K",       "-f",  "64", "--mpi", "none"};
  if (raw) arguments.emplace_back("--raw");
  const Measured measured = measure(arguments);
  CAPTURE(collective, raw, measured.finished.out, measured.finished.error);
  REQUIRE(measured.finished.exit_code == 0);
  CHECK(wrong_in(measured.results) == 0);
  Names expected = {"dabke shm", "dabke gloo", "dabke tcp"};
  if (kWithRawGloo && collective != "reducescatter") expected.insert("raw gloo");
  if (collective == "allreduce") expected.insert({"memcpy", "bound"});
  CHECK(measured.competitors() == expected);
  const std::size_t sizes = collective == "barrier" ? 1 : 2;
  CHECK(measured.results.size() == expected.size() * sizes);
  for (const auto& row : measured.results) {
    CHECK(row["times_us"].size() == 2);
    CHECK(row["time_us"].get<double>() > 0);
    CHECK(row["path"] == (raw ? "raw" : "api"));
  }
  CHECK_THAT(measured.finished.out, Catch::Contains("dabke shm") && Catch::Contains("#wrong"));
}

TEST_CASE("dabke-perf: raw MPI and Dabke over it are measured in a job of each MPI") {
  if (kMpis.empty()) DABKE_SKIP("there is no MPI in this build");
  const std::string mpi = GENERATE(from_range(kMpis));
  const Measured measured = measure({"allreduce", "-np", "2", "--raw", "-b", "8", "-e", "4K", "-f", "64",
                                     "--mpi", mpi, "--peers", "mpi,gloo"});
  CAPTURE(mpi, measured.finished.out, measured.finished.error);
  REQUIRE(measured.finished.exit_code == 0);
  CHECK(measured.competitors() ==
        Names{"dabke shm", "dabke gloo", "dabke tcp", "dabke mpi", "raw " + mpi, "raw gloo"});
  CHECK(wrong_in(measured.results) == 0);
  for (const auto& row : measured.results) CHECK(row["job"] == mpi);
}

TEST_CASE("dabke-perf: three ranks, other dtypes and out of place are right as well") {
  const auto [dtype, op] = GENERATE(table<std::string, std::string>(
      {{"bfloat16", "sum"}, {"int8", "max"}, {"float64", "product"}, {"bool", "min"}}));
  const Measured measured = measure({"allreduce", "-np", "3", "--raw", "-d", dtype, "-o", op, "-b", "1K",
                                     "-e", "1K", "--in-place", "--out-of-place", "--mpi", "none"});
  CAPTURE(dtype, op, measured.finished.out, measured.finished.error);
  REQUIRE(measured.finished.exit_code == 0);
  CHECK(wrong_in(measured.results) == 0);
  std::set<bool> places;
  for (const auto& row : measured.results) places.insert(row["in_place"].get<bool>());
  CHECK(places == std::set<bool>{false, true});
}

TEST_CASE("dabke-perf: collectives on memory of dabke_alloc are right, raw and through the public API") {
  std::vector<std::string> arguments = {"allreduce", "-np",     "2",     "-b",       "64K",   "-e",
                                        "1M",        "-f",      "16",    "--memory", "dabke", "--backends",
                                        "shm",       "--peers", "bound", "--mpi",    "none"};
  if (GENERATE(true, false)) arguments.emplace_back("--raw");
  const Measured measured = measure(arguments);
  CAPTURE(measured.finished.out, measured.finished.error);
  REQUIRE(measured.finished.exit_code == 0);
  CHECK(wrong_in(measured.results) == 0);
  CHECK(measured.results.size() == 4);
  for (const auto& row : measured.results) CHECK(row["memory"] == "dabke");
}

TEST_CASE("dabke-perf: single calls are timed one by one") {
  const Measured measured = measure({"--latency", "-np", "2", "--mpi", "none"});
  CAPTURE(measured.finished.out, measured.finished.error);
  REQUIRE(measured.finished.exit_code == 0);
  CHECK(wrong_in(measured.results) == 0);
  for (const auto& row : measured.results) {
    const auto& more = row["more"];
    for (std::size_t run = 0; run < 2; ++run) {
      CHECK(more["best_us"][run].get<double>() <= row["times_us"][run].get<double>());
      CHECK(row["times_us"][run].get<double>() <= more["p99_us"][run].get<double>());
    }
  }
}

TEST_CASE("dabke-perf: a step of a model's gradients and one of equal tensors are right") {
  const TemporaryDirectory place;
  std::ofstream(place.path() + "/tiny.txt")
      << "# a comment\nfc.bias 10\nfc.weight 10 33\nconv.weight 3 3 7\n";
  const bool is_model = GENERATE(true, false);
  std::vector<std::string> arguments = {"-np", "2", "--mpi", "none"};
  if (is_model) arguments.insert(arguments.end(), {"--model", place.path() + "/tiny.txt"});
  if (!is_model)
    arguments.insert(arguments.end(), {"--tensors", "30", "--tensor-bytes", "100", "--timeline"});
  double writers = 0;  // a writer may not have had a core yet; on a busy machine, none of them
  Measured measured;
  for (int i = 0; i < 5 && writers == 0; ++i) {
    measured = measure(arguments);
    for (const auto& row : measured.results) {
      for (const double percent : row["more"].value("timeline_writer_percent", std::vector<double>())) {
        CHECK(percent <= 100);
        writers += percent;
      }
    }
    if (is_model) break;
  }
  CAPTURE(is_model, measured.finished.out, measured.finished.error);
  REQUIRE(measured.finished.exit_code == 0);
  CHECK(measured.competitors() == Names{"dabke shm", "dabke gloo", "dabke tcp"});
  CHECK(wrong_in(measured.results) == 0);
  for (const auto& row : measured.results) {
    CHECK(row["count"] == (is_model ? 3 : 30));
    CHECK(row["bytes"] == (is_model ? (10 + 330 + 63) * 4 : 3000));
    CHECK(row["more"]["flat_us"].size() == 2);
    CHECK(row["more"].contains("timeline_us") == !is_model);
  }
  CHECK((writers > 0) == !is_model);
}

TEST_CASE("dabke-perf: the models that come with it are found") {
  const std::string model = GENERATE("resnet50", "bert-large", "gpt2");
  const Finished finished =
      LauncherRun({"--model", model, "--json", "/nowhere/x"}, {.program = DABKE_PERF}).finish();
  CHECK_THAT(finished.error, Catch::Contains("/nowhere/x") && !Catch::Contains("--model"));
}

TEST_CASE("dabke-perf: an idle job is seen to use next to nothing") {
  const Measured measured = measure({"--idle", "-np", "2", "--backends", "shm"});
  CAPTURE(measured.finished.out, measured.finished.error);
  REQUIRE(measured.finished.exit_code == 0);
  REQUIRE(measured.results.size() == 1);
  CHECK(measured.results[0]["more"]["cpu_percent"].size() == 2);
  CHECK(measured.results[0]["more"]["wake_ups_per_second"].size() == 2);
}

TEST_CASE("dabke-perf: inside a job it measures with the job's ranks, and one of them prints") {
  std::vector<std::string> arguments = {"-np",   "2",  "--no-prefix", DABKE_PERF, "allreduce",
                                        "--raw", "-b", "8",           "-e",       "8"};
  arguments.insert(arguments.end(), kTiny.begin(), kTiny.end());
  const Finished finished = LauncherRun(arguments).finish();
  CAPTURE(finished.out, finished.error);
  REQUIRE(finished.exit_code == 0);
  const auto first = finished.out.find("dabke gloo");
  CHECK(first != std::string::npos);
  CHECK(finished.out.find("dabke gloo", first + 1) == std::string::npos);
}

TEST_CASE("dabke-perf: what cannot be measured ends with 2 and one line") {
  const auto [arguments, error] = GENERATE(table<std::vector<std::string>, std::string>({
      {{"--model", "alexnet"}, "--model is 'alexnet', which is neither a file nor one of"},
      {{"--json", "/nowhere/x"}, "cannot write '/nowhere/x'"},
      {{"gather"}, "the collective is 'gather'"},
  }));
  const Finished finished = LauncherRun(arguments, {.program = DABKE_PERF}).finish();
  CAPTURE(arguments, finished.error);
  CHECK(finished.exit_code == 2);
  CHECK(lines_of(finished.error).size() == 1);
  CHECK_THAT(finished.error, Catch::Contains(error));
}

TEST_CASE("dabke-perf: a number of ranks that contradicts the job's is refused") {
  const Finished finished = LauncherRun({"-np", "2", DABKE_PERF, "-np", "3"}).finish();
  CHECK(finished.exit_code != 0);
  CHECK_THAT(finished.error, Catch::Contains("-np is 3") && Catch::Contains("has 2 ranks"));
}

TEST_CASE("dabke-perf: a signal at any moment ends it and leaves neither a process nor a file") {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> moments_us(0, test::kSanitized ? 300'000 : 60'000);
  const std::string mark = "DABKE_TEST_MARK=" + std::to_string(::getpid());
  const TemporaryDirectory place;
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(20);  // for a busy machine
  for (int round = 0; round < 50 && std::chrono::steady_clock::now() < enough; ++round) {
    const int moment_us = moments_us(random);
    LauncherRun perf({"-q", "--peers", "memcpy", "--backends", "shm", "--seconds", "100"},
                     {.program = DABKE_PERF, .environment = {mark, "TMPDIR=" + place.path()}});
    std::this_thread::sleep_for(std::chrono::microseconds(moment_us));
    perf.signal(SIGTERM);
    const Finished finished = perf.finish();
    CAPTURE(moment_us, finished.exit_code, finished.error);
    REQUIRE((finished.exit_code == 1 || finished.exit_code == 128 + SIGTERM));
    REQUIRE(processes_with(mark).empty());
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place.path())) {
      // ThreadSanitizer leaves such a file when a process is killed as it starts.
      if (!entry.path().filename().string().starts_with("tsan.rodata."))
        left.push_back(entry.path().string());
    }
    REQUIRE(left == std::vector<std::string>());
  }
}

}  // namespace dabke::test

// Processes of an elastic job that is served by the test instead of dabkerun.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/facts.h"
#include "tests/launcher/elastic/served_job.h"
#include "tests/multiproc/rank_processes.h"
#include "tests/patience.h"
#include "tests/temporary_directory.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

constexpr auto kEnd = std::chrono::seconds(kSanitized ? 300 : 120);

/// The processes of a job, each of which takes so many steps.
class Workers {
 public:
  Workers(ServedJob& job, int steps) : job_(job), steps_(steps) {}

  void start(int worker, const std::string& host = "a") {
    std::vector<std::string> environment{"DABKE_GATHERS_DUMPS=1", "DABKE_LOG_LEVEL=fatal",
                                         "TEST_DUMP_FILE=" + dump_file(worker)};
    for (const auto& [name, value] : job_.variables_of(worker, host))
      environment.push_back(name + "=" + value);
    processes_.start(EPOCH_WORKER, std::to_string(steps_), environment);
  }
  /// Kills the process. The job learns of it as from dabkerun.
  void kill(int worker) {
    processes_.signal(worker, SIGKILL);
    const int status = processes_.exit_code(worker, kEnd);
    job_.record_end(
        worker, {.rank = worker, .size = 0, .pid = processes_.pid(worker), .status = status, .host = "a"});
    job_.ends(worker, "killed by SIGKILL");
  }
  /// The status of a process that ends by itself.
  int end_of(int worker) {
    const int status = processes_.exit_code(worker, kEnd);
    job_.ends(worker, status == 0 ? "" : "failed");
    return status;
  }
  bool wait_for(int worker, const std::string& text) const {
    return processes_.wait_for_output(worker, text);
  }
  std::string output(int worker) const { return processes_.output(worker); }
  /// The events in the flight recorder of its last dump.
  struct Recorded {
    std::size_t before = 0;     // before the last epoch began
    std::uint64_t epoch = 0;    // which began last
    std::string place;          // in it: "rank 0 of 3"
    std::size_t submitted = 0;  // as the dump counts
  };
  Recorded recorded(int worker) const {
    std::ifstream file(dump_file(worker));
    Recorded out;
    const auto dump = nlohmann::json::parse(file);
    out.submitted = dump["submitted"];
    const auto& events = dump["events"];
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i]["what"] == "epoch") out = {i, events[i]["number"], events[i]["name"], out.submitted};
    }
    return out;
  }
  /// The number behind the last `word` in the process's output; -1 if there is none.
  long number_after(int worker, const std::string& word) const {
    const std::string text = output(worker);
    const auto place = text.rfind(word + " ");
    return place == std::string::npos ? -1 : std::atol(text.c_str() + place + word.size() + 1);
  }

 private:
  std::string dump_file(int worker) const { return folder_.path() + "/dump" + std::to_string(worker); }

  const TemporaryDirectory folder_;
  ServedJob& job_;
  const int steps_;
  RankProcesses processes_;
};

}  // namespace

TEST_CASE("a killed process leaves the others the newest commit, whatever its rank was") {
  const int victim = GENERATE(0, 3);
  constexpr int kSteps = kSanitized ? 2000 : 5000;
  ServedJob job(limits_of(4, 1), {{"a", 4}});
  Workers workers(job, kSteps);
  for (int worker = 0; worker < 4; ++worker) workers.start(worker);
  REQUIRE(workers.wait_for(victim, "epoch 1"));
  workers.kill(victim);
  for (int worker = 0; worker < 4; ++worker) {
    if (worker == victim) continue;
    INFO(workers.output(worker));
    REQUIRE(workers.end_of(worker) == 0);
    CHECK_THAT(workers.output(worker), Contains("error peer_lost"));
    CHECK_THAT(workers.output(worker),
               Contains("epoch 2") && Contains("of 3") &&
                   Contains("lost " + std::to_string(victim) + ":a:killed by SIGKILL"));
    const auto recorded = workers.recorded(worker);
    CHECK(recorded.epoch == 2);
    CHECK_THAT(recorded.place, Catch::StartsWith("rank ") && Catch::EndsWith(" of 3"));
    CHECK(recorded.before > 1);  // the begin of epoch 1, and what came then
    CHECK(recorded.submitted == 0);
    const long newest = workers.number_after(worker, "newest");
    CHECK(workers.number_after(worker, "sum") == 4 * newest + 3 * (kSteps - newest));
  }
}

TEST_CASE("processes that are killed while the next epoch forms are lost, too, and the others go on") {
  constexpr int kSteps = kSanitized ? 2000 : 5000;
  const auto pause = std::chrono::microseconds(GENERATE(0, 500, 1000, 2000, 3000, 4000, 6000, 9000));
  CAPTURE(pause.count());
  ServedJob job(limits_of(4, 1), {{"a", 4}});
  Workers workers(job, kSteps);
  for (int worker = 0; worker < 4; ++worker) workers.start(worker);
  REQUIRE(workers.wait_for(3, "epoch 1"));
  workers.kill(3);
  std::this_thread::sleep_for(pause);  // so that the second comes at any moment of the way to the next epoch
  workers.kill(0);
  for (const int worker : {1, 2}) {
    INFO(workers.output(worker));
    REQUIRE(workers.end_of(worker) == 0);
    CHECK_THAT(workers.output(worker), Contains("of 2"));
  }
  CHECK(workers.number_after(1, "sum") == workers.number_after(2, "sum"));
}

TEST_CASE("a new process joins at a commit, and one whose slot is no longer listed leaves at one") {
  constexpr int kSteps = kSanitized ? 4000 : 10000;
  ServedJob job(limits_of(2, 1, 3), {{"a", 2}});
  Workers workers(job, kSteps);
  for (int worker = 0; worker < 2; ++worker) workers.start(worker);
  REQUIRE(workers.wait_for(1, "epoch 1"));
  job.use({{"a", 3}});
  workers.start(2);
  for (int worker = 0; worker < 3; ++worker) REQUIRE(workers.wait_for(worker, "of 3"));
  const long joined_at = workers.number_after(2, "newest");
  CHECK_THAT(workers.output(2),
             Contains("epoch 2 rank 2 of 3 former 0,1,-1") && Contains("holders 0,1 lost -"));
  job.use({{"a", 2}});
  REQUIRE(workers.end_of(2) == 0);
  CHECK_THAT(workers.output(2), Contains("left host a is no longer listed"));
  for (int worker = 0; worker < 2; ++worker) {
    INFO(workers.output(worker));
    REQUIRE(workers.end_of(worker) == 0);
    CHECK_THAT(workers.output(worker), !Contains("error") && Contains("epoch 3") && Contains("left -"));
    const long left_at = workers.number_after(worker, "newest");
    CHECK(workers.number_after(2, "done") == left_at);
    CHECK(workers.number_after(worker, "sum") == 2 * kSteps + (left_at - joined_at));
  }
}

}  // namespace dabke::test

// Elastic jobs of the real dabkerun: ranks are killed, stopped, added and sent away.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/send_signal.h"
#include "tests/temporary_directory.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using Words = std::vector<std::string>;

struct StopFile {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/stop";
};

/// A dabkerun with flags of an elastic job and the test's worker, which runs until it is stopped.
class ElasticRun : private StopFile, public LauncherRun {
 public:
  struct Worker {
    int step_us = 1000;
    std::string timeline = {};  // the program records it; empty for none
    std::string script = {};    // a shell runs it with the worker's words; empty for none
  };
  explicit ElasticRun(Words flags, const Words& environment = {})
      : ElasticRun(std::move(flags), {}, environment) {}
  ElasticRun(Words flags, const Worker& worker, const Words& environment = {})
      : LauncherRun(with_worker(std::move(flags), worker), {.environment = with_stop(environment, path)}) {}

  /// Waits until the process of the slot is rank `rank` in an epoch of `size` ranks.
  bool wait_for_rank(int rank, int size) {
    return wait_for_output("rank " + std::to_string(rank) + " of " + std::to_string(size));
  }
  pid_t pid_of(const std::string& slot) {
    const std::string text = "slot " + slot + " is pid ";
    return wait_for_output(text) ? number_after(text) : -1;
  }
  /// Lets the ranks end after their next step.
  Finished stop_and_finish() {
    std::ofstream{path};
    return finish();
  }

 private:
  /// The last of two values of a flag wins.
  static Words with_worker(Words flags, const Worker& worker) {
    flags.insert(flags.begin(), {"--blacklist-cooldown-range", "0.3", "1"});
    if (!worker.script.empty()) flags.insert(flags.end(), {"sh", "-c", worker.script, "sh"});
    flags.insert(flags.end(), {EPOCH_WORKER, "1000000", std::to_string(worker.step_us)});
    if (!worker.timeline.empty()) flags.push_back(worker.timeline);
    return flags;
  }
  static Words with_stop(Words environment, const std::string& path) {
    environment.push_back("TEST_STOP_FILE=" + path);
    return environment;
  }
};

std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

template <class Condition>
bool comes_true(Condition condition) {
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

/// Waits until the file has the records of some steps.
bool wait_for_records(const std::string& path) {
  constexpr std::uintmax_t kSomeSteps = 8000;  // bytes, of which the head takes 1,100
  return comes_true([&] {
    std::error_code error;
    return std::filesystem::file_size(path, error) >= kSomeSteps && !error;
  });
}

bool has_socket(pid_t pid) {
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc/" + std::to_string(pid) + "/fd", error), end;
       !error && each != end; each.increment(error)) {
    if (std::filesystem::read_symlink(each->path(), error).string().starts_with("socket:")) return true;
    error.clear();  // it was closed meanwhile
  }
  return false;
}

/// The memory for collectives that the process has mapped, by inode: memory that ranks of a host share, and
/// registered memory.
std::set<std::string> memory_for_collectives(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::set<std::string> inodes;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string addresses, rights, offset, device, inode, path;
    words >> addresses >> rights >> offset >> device >> inode >> path;
    if (path == "/memfd:dabke-stages" || path == "/memfd:dabke-memory") inodes.insert(inode);
  }
  return inodes;
}

/// The content of the file, changed in one step.
void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

}  // namespace

TEST_CASE("rank 0 of an elastic job is killed: the others go on, and a new rank takes its slot") {
  ElasticRun job({"-H", "localhost:3", "-np", "3", "--min-np", "2"});
  const pid_t first = job.pid_of("localhost:0");
  REQUIRE(job.wait_for_rank(2, 3));
  send_signal(first, SIGKILL);
  REQUIRE(job.wait_for_output("epoch 3 rank 2 of 3"));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error,
             Contains("dabkerun: epoch 2: rank 0 (host localhost) was killed by SIGKILL (signal 9) at "));
  CHECK_THAT(end.error, Contains("; 2 of 3 go on after "));
  CHECK_THAT(end.error, Contains("dabkerun: epoch 3: rank 2 (host localhost) joins; 2 of 2 go on"));
  CHECK_THAT(end.out, Contains("[0]<stdout>:epoch 2 rank 0 of 2 former 1,2"));
  CHECK_THAT(end.out, Contains("[2]<stdout>:done "));
}

TEST_CASE("the timeline of an elastic job has all epochs, also the records of rank 0, which was killed") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/trace.json";
  // The survivors go on before the new rank comes, also on a busy machine.
  ElasticRun job({"-H", "localhost:3", "-np", "3", "--min-np", "2", "--blacklist-cooldown-range", "2", "4",
                  "--timeline-filename", path},
                 ElasticRun::Worker{.step_us = 20'000});
  const pid_t first = job.pid_of("localhost:0");
  REQUIRE(job.wait_for_rank(2, 3));
  REQUIRE(wait_for_records(path + ".rank0"));
  send_signal(first, SIGKILL);
  REQUIRE(job.wait_for_output("epoch 3 rank 2 of 3"));
  REQUIRE(wait_for_records(path + ".epoch3.rank2"));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error, Contains("timeline: rank 0 in epoch 1: '" + path + ".rank0' was "));
  CHECK_THAT(end.error, Contains("timeline: '" + path + "' has 8 of 8 ranks of 3 epochs"));
  for (const std::string name : {".rank0", ".rank2", ".epoch2.rank0", ".epoch2.rank1", ".epoch3.rank2"})
    CHECK(std::filesystem::exists(path + name));

  const auto trace = nlohmann::json::parse(content_of(path));
  std::map<int, std::set<int>> epochs;  // of the batches of each rank
  std::vector<std::string> bands;
  for (const auto& event : trace["traceEvents"]) {
    const std::string name = event["name"];
    if (event["ph"] != "X") continue;
    if (event["args"].contains("change")) bands.push_back(name);
    if (event["args"].contains("first")) epochs[event["pid"]].insert(event["args"]["epoch"].get<int>());
  }
  CHECK(epochs == std::map<int, std::set<int>>{{0, {1, 2, 3}}, {1, {1, 2, 3}}, {2, {1, 3}}});
  REQUIRE(bands.size() == 2);
  CHECK(bands[0] == "epoch 2: rank 0 (host localhost) was killed by SIGKILL (signal 9); 2 of 3 ranks go on");
  CHECK(bands[1] == "epoch 3: rank 2 (host localhost) joins; 2 of 2 ranks go on");
  const auto& report = trace["otherData"]["report"];
  CHECK(report["changes"].size() == 2);
  CHECK(report["changes_us"] > 0.0);
  // The worker's last call has no other rank; the errors of the changes are left out.
  for (const auto& failure : report["failures"]) CHECK(failure["tensor"] == "lonely");

  const Finished tool = LauncherRun({"report", path}, {.program = DABKE_TIMELINE_TOOL}).finish();
  CHECK(tool.exit_code == 0);
  CHECK_THAT(tool.out,
             Contains("Changes of the ranks: ") && Contains(" in 2 changes\n") && Contains(bands[0]));
  const Finished checked = LauncherRun({"check", path}, {.program = DABKE_TIMELINE_TOOL}).finish();
  CHECK_THAT(checked.out, Contains("rank 0 in epoch 1: ") && !Contains("allreduce 'x'"));
}

TEST_CASE("a timeline that the program of an elastic job starts is merged when it stops, not at a change") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/trace.json";
  ElasticRun job({"-H", "localhost:3", "-np", "3", "--min-np", "2", "--blacklist-cooldown-range", "2", "4"},
                 ElasticRun::Worker{.step_us = 20'000, .timeline = path});
  const pid_t last = job.pid_of("localhost:2");
  REQUIRE(job.wait_for_rank(2, 3));
  REQUIRE(wait_for_records(path + ".rank2"));
  send_signal(last, SIGKILL);
  REQUIRE(job.wait_for_rank(0, 2));
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(job.wait_for_output("epoch 3 rank 2 of 3"));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  const auto clocks = nlohmann::json::parse(content_of(path))["otherData"]["clocks"];
  std::map<int, int> ranks;  // number of ranks, by epoch
  for (const auto& clock : clocks) ++ranks[clock["epoch"].get<int>()];
  CHECK(ranks == std::map<int, int>{{1, 3}, {2, 2}, {3, 3}});
}

TEST_CASE(
    "a spare takes the place of a lost rank at once, also where it has one of the slots of fixed hosts") {
  ElasticRun job(GENERATE(Words{"-H", "localhost:4", "-np", "2", "--max-np", "2", "--spares", "1"},
                          Words{"-H", "localhost:3", "-np", "2", "--spares", "1"}));
  REQUIRE(job.wait_for_rank(1, 2));
  REQUIRE(job.wait_for_output(" is pid ", 3));
  send_signal(job.pid_of("localhost:0"), SIGKILL);  // the first process printed may be the spare
  REQUIRE(job.wait_for_output("epoch 2 rank 1 of 2"));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.out, Contains("epoch 2 rank 1 of 2 former 1,-1"));
}

TEST_CASE("spares for which there is no slot, or no known number of slots, are refused") {
  CHECK_THAT(LauncherRun({"-H", "localhost:2", "-np", "2", "--spares", "1", "true"}).finish().error,
             Contains("2 ranks and 1 spare were requested, but -H has 2 slots"));
  CHECK_THAT(
      LauncherRun({"-np", "2", "--spares", "1", "--host-discovery-script", "true", "true"}).finish().error,
      Contains("--spares 1: without --max-np, every slot that the script lists gets a rank"));
}

TEST_CASE("a discovery script that never gives a list ends the job after the elastic timeout") {
  const Finished end = LauncherRun({"-np", "2", "--min-np", "1", "--elastic-timeout", "2",
                                    "--host-discovery-script", "echo no scheduler >&2; exit 7", "true"})
                           .finish();
  CHECK(end.exit_code == 1);
  CHECK_THAT(end.error, Contains("it exited with status code 7: no scheduler\n") &&
                            Contains("the job failed: 0 of at least 1 ranks are there after 2 s"));
}

TEST_CASE("the last lines of an elastic job name who was lost, where and when, and why the job ends") {
  ElasticRun job({"-H", "localhost:3", "-np", "3", "--min-np", "1", "--reset-limit", "1",
                  "--blacklist-cooldown-range", "300", "300"});
  const pid_t second = job.pid_of("localhost:1"), third = job.pid_of("localhost:2");
  REQUIRE(job.wait_for_rank(2, 3));
  send_signal(third, SIGKILL);
  REQUIRE(job.wait_for_rank(1, 2));
  send_signal(second, SIGTERM);
  const Finished end = job.finish();
  INFO(end.error);
  CHECK(end.exit_code == 143);
  CHECK_THAT(end.error,
             Contains("dabkerun: lost: rank 2 (host localhost) was killed by SIGKILL (signal 9) at ") &&
                 Contains("dabkerun: lost: rank 1 (host localhost) was killed by SIGTERM (signal 15) at ") &&
                 Contains("the job failed in epoch 2: --reset-limit 1 allows no further change"));
}

TEST_CASE(
    "ranks join and leave as the discovery script lists hosts, and a script that fails changes nothing") {
  const TemporaryDirectory directory;
  const std::string hosts = directory.path() + "/hosts.sh";
  write_file(hosts, "echo localhost:2\n");
  ElasticRun job({"--min-np", "1", "-np", "2", "--host-discovery-script", "sh " + hosts});
  REQUIRE(job.wait_for_rank(1, 2));
  write_file(hosts, "echo localhost:3\n");
  REQUIRE(job.wait_for_rank(2, 3));
  write_file(hosts, "echo no list; exit 4\n");
  REQUIRE(job.wait_for_error("exited with status code 4; the last list stays"));
  write_file(hosts, "echo localhost\n");
  REQUIRE(job.wait_for_rank(0, 1));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error, Contains("leaves: host localhost is no longer listed"));
  CHECK_THAT(end.out, Contains("left host localhost is no longer listed"));
  CHECK_THAT(end.out, Contains("[0]<stdout>:done "));
}

TEST_CASE(
    "a host whose agent gets SIGTERM leaves in good order, and comes back when the script lists it anew") {
  const TemporaryDirectory directory;
  const std::string hosts = directory.path() + "/hosts";
  write_file(hosts, "localhost:1\nother.invalid:2\n");
  ElasticRun job({"--min-np", "1", "-np", "3", "--host-discovery-script", "cat " + hosts, "--remote-shell",
                  make_remote_shell(directory), "--verbose"},
                 Words{"DABKE_PEER_TIMEOUT_SECONDS=60"});  // a silent host is not the matter here
  const pid_t agent = parent_of(parent_of(job.pid_of("other.invalid:0")));  // above the rank's supervisor
  REQUIRE(job.wait_for_rank(2, 3));
  send_signal(agent, SIGTERM);
  REQUIRE(job.wait_for_rank(0, 1));
  write_file(hosts, "localhost:1\n");
  REQUIRE(job.wait_for_error("--host-discovery-script: 1 host\n"));
  write_file(hosts, "localhost:1\nother.invalid:1\n");
  REQUIRE(job.wait_for_rank(1, 2));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error, Contains("host other.invalid received SIGTERM: its ranks leave at their next "));
  for (const int rank : {1, 2}) {
    CHECK_THAT(end.error, Contains("rank " + std::to_string(rank) + " (host other.invalid) leaves"));
    CHECK_THAT(end.out, Contains("[" + std::to_string(rank) + "]<stdout>:done "));
  }
  CHECK_THAT(end.error, !Contains("killed") && Contains("the job had 3 epochs, and lost no rank"));
  CHECK_THAT(end.out, Contains("[1]<stdout>:done ") && !Contains("error"));
}

TEST_CASE("ranks of this host leave when its agent gets SIGTERM, although the script calls it localhost") {
  const TemporaryDirectory directory;
  ElasticRun job(
      {"--min-np", "1", "-np", "2", "--host-discovery-script", "printf 'localhost:1\\nother.invalid:1\\n'",
       "--remote-shell", make_remote_shell(directory)},
      Words{"DABKE_PEER_TIMEOUT_SECONDS=60"});
  const pid_t agent = parent_of(parent_of(job.pid_of("localhost:0")));
  REQUIRE(agent != job.pid());
  REQUIRE(job.wait_for_rank(1, 2));
  send_signal(agent, SIGTERM);
  REQUIRE(job.wait_for_rank(0, 1));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error, Contains("rank 0 (host localhost) leaves: host localhost is no longer listed") &&
                            Contains("and lost no rank"));
  CHECK_THAT(end.out, Contains("epoch 2 rank 0 of 1 former 1 "));
}

TEST_CASE("a lost agent of this host leaves out all of its slots, although the script calls it localhost") {
  const TemporaryDirectory directory;
  const bool is_local = GENERATE(true, false);
  const std::string lost = is_local ? "localhost" : "lost.invalid";
  ElasticRun job({"--min-np", "1", "-np", "2", "--max-np", "2", "--blacklist-cooldown-range", "300", "300",
                  "--host-discovery-script", "printf 'first.invalid:1\\n" + lost + ":2\\nlast.invalid:1\\n'",
                  "--remote-shell", make_remote_shell(directory)},
                 Words{"DABKE_PEER_TIMEOUT_SECONDS=60"});
  const pid_t agent = parent_of(parent_of(job.pid_of(lost + ":0")));
  REQUIRE(job.wait_for_rank(1, 2));
  send_signal(agent, SIGKILL);
  REQUIRE(job.wait_for_output("rank 1 of 2", 2));  // in epoch 2, or in epoch 3 if the new process comes later
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.out, Contains("slot last.invalid:0 is pid ") && !Contains("slot " + lost + ":1 "));
}

TEST_CASE(
    "a host that the script lists and that is not in the Slurm job is left out, and the reason is given") {
  const TemporaryDirectory directory;
  write_file(directory / "srun", "#!/bin/sh\n");
  std::filesystem::permissions(directory / "srun", std::filesystem::perms::owner_all);
  const char* const path = std::getenv("PATH");
  ElasticRun job(
      {"--min-np", "1", "-np", "1", "--host-discovery-script", "printf 'localhost:1\\nother.invalid:2\\n'"},
      Words{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=localhost", "SLURM_TASKS_PER_NODE=1",
            "PATH=" + directory.path() + ":" + (path != nullptr ? path : "")});
  REQUIRE(job.wait_for_rank(0, 1));
  REQUIRE(
      job.wait_for_error("host other.invalid does not belong to Slurm job 7, so srun cannot start ranks "
                         "there: list hosts of that job, or use --launcher ssh\n"));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error, !Contains("no process") && !Contains("lost: "));
}

TEST_CASE("a host whose agent cannot be started is lost like any other, and the job goes on") {
  const TemporaryDirectory directory;
  const std::string hosts = directory / "hosts", shell = directory / "later";
  write_file(hosts, "localhost:1\n");
  ElasticRun job(
      {"--min-np", "1", "-np", "1", "--host-discovery-script", "cat " + hosts, "--remote-shell", shell},
      Words{"DABKE_PEER_TIMEOUT_SECONDS=60"});
  REQUIRE(job.wait_for_rank(0, 1));
  write_file(hosts, "localhost:1\nother.invalid:1\n");
  REQUIRE(job.wait_for_error("host other.invalid: cannot run " + shell + ": No such file"));
  std::filesystem::rename(make_remote_shell(directory), shell);
  REQUIRE(job.wait_for_rank(1, 2));
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error, Contains("the job had 2 epochs, and lost no rank"));
}

TEST_CASE("a stopped rank is slow for the peer timeout, and then lost") {
  ElasticRun job({"-H", "localhost:2", "-np", "2", "--min-np", "1"}, Words{"DABKE_PEER_TIMEOUT_SECONDS=1"});
  const pid_t second = job.pid_of("localhost:1");
  REQUIRE(job.wait_for_rank(1, 2));
  send_signal(second, SIGSTOP);
  std::this_thread::sleep_for(300ms);
  send_signal(second, SIGCONT);
  std::this_thread::sleep_for(1s);
  send_signal(second, SIGSTOP);
  REQUIRE(job.wait_for_output("epoch 2 rank 0 of 1"));
  CHECK(::kill(second, 0) != 0);  // it is reaped, so it cannot wake and write into the others' memory
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error, Contains("has been stopped for 1 s (DABKE_PEER_TIMEOUT_SECONDS), and is killed"));
  CHECK_THAT(end.error, Contains("epoch 2: rank 1 (host localhost) "));
}

TEST_CASE("a rank that a script runs is lost like any other if it is stopped") {
  const std::string script = GENERATE(as<std::string>(), "\"$@\"; true", "\"$@\" 2>&1 | cat");
  ElasticRun job({"-H", "localhost:2", "-np", "2", "--min-np", "1"}, ElasticRun::Worker{.script = script},
                 Words{"DABKE_PEER_TIMEOUT_SECONDS=1", "TEST_MEMORY_MB=500"});
  const pid_t second = job.pid_of("localhost:1");
  REQUIRE(job.wait_for_rank(1, 2));
  send_signal(second, SIGSTOP);
  REQUIRE(job.wait_for_output("epoch 2 rank 0 of 1"));
  CHECK(::kill(second, 0) != 0);  // although it takes longer to end than the script
  const Finished end = job.stop_and_finish();
  INFO(end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.error, Contains("pid " + std::to_string(second) + " has been stopped for 1 s "));
}

TEST_CASE("ranks under two names of a machine, which two agents run, cannot write into each other's memory") {
  const bool are_two_names = GENERATE(true, false);
  const std::string second = are_two_names ? "other.invalid:0" : "localhost:1";
  const TemporaryDirectory directory;
  const std::string hosts = directory.path() + "/hosts";
  write_file(hosts, are_two_names ? "localhost:1\nother.invalid:1\n" : "localhost:2\n");
  ElasticRun job({"-np", "2", "--host-discovery-script", "cat " + hosts, "--remote-shell",
                  make_remote_shell(directory)});
  REQUIRE(job.wait_for_rank(1, 2));
  REQUIRE(job.wait_for_rank(0, 2));
  const auto one = memory_for_collectives(job.pid_of("localhost:0"));
  const auto other = memory_for_collectives(job.pid_of(second));
  CHECK(!one.empty());
  std::vector<std::string> common;
  std::ranges::set_intersection(one, other, std::back_inserter(common));
  CHECK(common.empty() == are_two_names);
  CHECK(job.stop_and_finish().exit_code == 0);
}

TEST_CASE("too few ranks are waited for, up to the elastic timeout") {
  ElasticRun job({"-H", "localhost:2", "-np", "2", "--min-np", "2", "--elastic-timeout", "5",
                  "--blacklist-cooldown-range", "60", "60"});
  const pid_t second = job.pid_of("localhost:1");
  REQUIRE(job.wait_for_rank(1, 2));
  send_signal(second, SIGKILL);
  const Finished end = job.finish();
  INFO(end.error);
  CHECK(end.exit_code == 137);
  CHECK_THAT(end.error, Contains("the job failed in epoch 1: 1 of at least 2 ranks are there after 5 s "
                                 "(--min-np, --elastic-timeout); the last failure: was killed by SIGKILL"));
}

TEST_CASE("a program that fails before it meets the others ends an elastic job with its status") {
  const Finished end =
      LauncherRun({"-np", "2", "--min-np", "1", "sh", "-c", "echo why >&2; exit 3"}).finish();
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.error,
             Contains("no process has come as far as init; the last failure: exited with status code 3"));
}

TEST_CASE("an elastic job ends at once, although a host of it still starts") {
  const auto begin = std::chrono::steady_clock::now();
  const TemporaryDirectory directory;
  const std::string hosts = directory.path() + "/hosts", shell = directory.path() + "/shell";
  write_file(hosts, "localhost:1\n");
  write_file(shell, "#!/bin/sh\nexec sleep 1000\n");
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  ElasticRun job({"-np", "1", "--min-np", "1", "--verbose", "--grace-period", "300",
                  "--host-discovery-script", "cat " + hosts, "--remote-shell", shell});
  const pid_t only = job.pid_of("localhost:0");
  REQUIRE(job.wait_for_rank(0, 1));
  write_file(hosts, "localhost:1\nslow:1\n");
  REQUIRE(job.wait_for_error("--host-discovery-script: 2 hosts"));
  SECTION("because no rank is left") {
    send_signal(only, SIGKILL);
    CHECK(job.finish().exit_code == 137);
  }
  SECTION("because of Ctrl-C") {
    job.signal(SIGINT);
    CHECK(job.finish().exit_code == 130);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 200s);
}

TEST_CASE("Ctrl-C ends an elastic job") {
  ElasticRun job({"-H", "localhost:2", "-np", "2", "--min-np", "1"});
  REQUIRE(job.wait_for_rank(1, 2));
  job.signal(SIGINT);
  CHECK(job.finish().exit_code == 130);
}

TEST_CASE(
    "nothing is left of an elastic job after kill -9 of dabkerun, not even a spare that waits in init") {
  const TemporaryDirectory directory;
  const std::string mark = "TEST_MARK=" + directory.path();
  ElasticRun job({"-H", "localhost:2,other.invalid:2", "-np", "3", "--max-np", "3", "--spares", "1",
                  "--remote-shell", make_remote_shell(directory)},
                 Words{mark});
  REQUIRE(job.wait_for_rank(2, 3));
  REQUIRE(job.wait_for_output(" is pid ", 4));
  std::vector<pid_t> workers;
  for (const int worker : {0, 1, 2, 3}) workers.push_back(worker_with(mark, worker));
  for (const pid_t pid : workers) {
    REQUIRE(pid > 0);
    REQUIRE(comes_true([&] { return has_socket(pid); }));  // in init, which connects to the store
    CHECK_FALSE(is_gone(pid));
  }
  job.signal(SIGKILL);
  CHECK(job.finish().exit_code == 137);
  CHECK(comes_true([&] { return processes_with(mark).empty(); }));
}

TEST_CASE("output files of an elastic job belong to slots, and have a line for each change") {
  const TemporaryDirectory directory;
  ElasticRun job({"-H", "localhost:2", "-np", "2", "--min-np", "1", "--output-filename", directory.path()});
  const pid_t first = job.pid_of("localhost:0");
  REQUIRE(job.wait_for_rank(1, 2));
  send_signal(first, SIGKILL);
  REQUIRE(job.wait_for_output("epoch 2 rank 0 of 1"));
  CHECK(job.stop_and_finish().exit_code == 0);
  const std::string slot = content_of(std::filesystem::path(directory.path()) / "localhost.1" / "stdout");
  CHECK_THAT(slot, Contains("dabkerun: rank 1 of 2 in epoch 1\n"));
  CHECK_THAT(slot, Contains("dabkerun: rank 0 of 1 in epoch 2\n"));
  CHECK_THAT(slot, Contains("done "));
}

}  // namespace dabke::test

// Signals that dabkerun forwards, on one host or several, whichever other processes also get them. Also
// Ctrl-C while a job starts.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/send_signal.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using test::kPatience;
using Words = std::vector<std::string>;

const std::string kWorker = LAUNCHER_WORKER;

std::string own_mark() { return "DABKE_TEST_MARK=" + std::to_string(::getpid()); }

/// A replacement for ssh, which runs the command on this host. For a host "silent", it does not answer.
std::string make_shell(const TemporaryDirectory& directory) {
  const std::string path = directory.path() + "/shell";
  std::ofstream(path) << "#!/bin/sh\nhost=$1; shift\n"
                         "if test $host = silent; then sleep 1000; fi\nexec sh -c \"$*\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

/// The processes that a signal is sent to.
enum class To { dabkerun, its_group, every_process, every_process_last_first };

/// Names this process as Slurm names the process that signals every process of a step.
class AsSlurm {
 public:
  AsSlurm() {
    ::prctl(PR_GET_NAME, name_);
    ::prctl(PR_SET_NAME, "slurmstepd");
  }
  ~AsSlurm() { ::prctl(PR_SET_NAME, name_); }
  AsSlurm(const AsSlurm&) = delete;
  AsSlurm& operator=(const AsSlurm&) = delete;

 private:
  char name_[16] = {};
};

void send(const LauncherRun& launcher, To to, int signal) {
  if (to == To::dabkerun) return launcher.signal(signal);
  if (to == To::its_group) {
    ::kill(-launcher.pid(), signal);
    return;
  }
  std::vector<pid_t> all = processes_with(own_mark());
  std::ranges::sort(all);
  if (to == To::every_process_last_first) std::ranges::reverse(all);
  for (const pid_t pid : all) send_signal(pid, signal);
}

std::string name_of_process(pid_t pid) {
  std::string name;
  std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
  std::getline(comm, name);
  return name;
}

/// Ctrl-C ends a job that is starting within this time, which is less than any grace period.
constexpr std::chrono::seconds kPrompt{2};

/// The time from Ctrl-C to the end of dabkerun, with what dabkerun has left.
struct Interrupted {
  std::chrono::milliseconds took{0};
  Finished job;
};

Interrupted interrupt(LauncherRun& launcher) {
  const auto begin = std::chrono::steady_clock::now();
  launcher.signal(SIGINT);
  Finished job = launcher.finish();
  const auto took = std::chrono::steady_clock::now() - begin;
  return {std::chrono::duration_cast<std::chrono::milliseconds>(took), std::move(job)};
}

/// The shortest time of `run()`, which runs again if it was longer than kPrompt: a busy machine may itself
/// take that long.
template <class Run>
std::chrono::milliseconds fastest_of(Run run) {
  std::chrono::milliseconds fastest = run();
  for (int i = 1; i < 5 && fastest >= kPrompt; ++i) fastest = std::min(fastest, run());
  return fastest;
}

bool nothing_is_left() {
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (!processes_with(own_mark()).empty()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

}  // namespace

TEST_CASE(
    "USR1, USR2, QUIT, CONT and WINCH reach every rank once, whoever else gets them, and the job goes on") {
  const To to = GENERATE(To::dabkerun, To::its_group, To::every_process, To::every_process_last_first);
  const bool has_two_agents = GENERATE(false, true);
  CAPTURE(static_cast<int>(to), has_two_agents);
  std::optional<AsSlurm> as_slurm;
  if (to == To::every_process || to == To::every_process_last_first) as_slurm.emplace();
  const TemporaryDirectory directory;
  Words words{DABKERUN, "-np", "3"};
  if (has_two_agents)
    words.insert(words.end(), {"-H", "localhost:1,other.invalid:2", "--remote-shell", make_shell(directory)});
  words.insert(words.end(), {kWorker, "count"});
  LauncherRun launcher(words, {.program = "setsid", .environment = {own_mark()}});
  REQUIRE(launcher.wait_for_output("ready", 3));
  std::vector<int> expected;
  const auto expect = [&](int signal) {
    expected.push_back(signal);
    const auto times = static_cast<std::size_t>(std::ranges::count(expected, signal));
    REQUIRE(launcher.wait_for_output("got " + std::to_string(signal) + "\n", 3 * times));
  };
  for (const int signal : {SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT, SIGWINCH, SIGUSR1}) {
    send(launcher, to, signal);
    expect(signal);
  }
  launcher.signal(SIGUSR2);  // reaches the ranks after all signals that are still under way
  expect(SIGUSR2);
  as_slurm.reset();
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  for (const int rank : {0, 1, 2}) {
    const std::string mark = "[" + std::to_string(rank) + "]<stdout>:got ";
    std::vector<int> seen;
    for (const std::string& line : lines_of(job.out)) {
      if (line.starts_with(mark)) seen.push_back(std::stoi(line.substr(mark.size())));
    }
    // For a stopped rank, a SIGCONT follows the SIGTERM.
    if (seen.size() == expected.size() + 1 && seen.back() == SIGCONT) seen.pop_back();
    CHECK(seen == expected);
  }
}

TEST_CASE("a signal that finds dabkerun's processes by their names reaches the ranks, from dabkerun") {
  const int signal = GENERATE(SIGUSR1, SIGTERM);
  LauncherRun launcher({"-np", "2", kWorker, "count"}, {.environment = {own_mark()}});
  REQUIRE(launcher.wait_for_output("ready", 2));
  std::vector<pid_t> all = processes_with(own_mark());
  std::erase_if(all, [](pid_t pid) { return name_of_process(pid) == "launcher_worker"; });
  REQUIRE(all.size() == 4);  // dabkerun, its agent, and two supervisors
  for (const pid_t pid : all) send_signal(pid, signal);
  if (signal == SIGUSR1) REQUIRE(launcher.wait_for_output("got " + std::to_string(signal) + "\n", 2));
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  CHECK(job.took < 2 * kPatience);
}

TEST_CASE("a rank without a handler ends of a forwarded signal, and the verdict says where it came from") {
  const int signal = GENERATE(SIGUSR1, SIGUSR2, SIGQUIT);
  LauncherRun launcher({"-np", "2", kWorker, "sleep"});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(signal);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 128 + signal);
  CHECK_THAT(job.error, Contains("dabkerun: first failure: rank ") && Contains("was killed by SIG") &&
                            Contains("dabkerun forwarded that signal, which came from pid " +
                                     std::to_string(::getpid()) + " (test_launcher_"));
}

TEST_CASE("what a rank does after a forwarded signal is its own doing") {
  // Rank 1 handles SIGUSR1 and fails later. That was once reported as an end on request.
  LauncherRun launcher(
      {"-np", "2", "sh", "-c",
       "trap 'test $DABKE_RANK = 1 && kill -SEGV $$' USR1; echo ready; while :; do sleep 0.05; done"});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGUSR1);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 128 + SIGSEGV);
  CHECK_THAT(job.error, Contains("first failure: rank 1 ") && Contains("was killed by SIGSEGV"));
}

TEST_CASE("a forwarded signal that comes before there are ranks does no harm") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-H", "silent:1", "--remote-shell", make_shell(directory), "--start-timeout", "600",
                        "--verbose", "true"},
                       {.environment = {own_mark()}});
  REQUIRE(launcher.wait_for_error("dabkerun: job "));
  launcher.signal(SIGUSR1);
  REQUIRE(launcher.wait_for_error("SIGUSR1 came before the ranks were started and is dropped"));
  launcher.signal(SIGTERM);
  CHECK(launcher.finish().exit_code == 128 + SIGTERM);
  CHECK(nothing_is_left());
}

TEST_CASE("SIGTERM from outside leaves ranks, and what they have started, more time to save than 4 s") {
  // Rank 1 is a shell, which ends at once, but the program that it started saves as well.
  LauncherRun launcher(
      {"-np", "2", "sh", "-c", "test $DABKE_RANK = 0 && exec \"$0\" save 7; \"$0\" save 7; exit 5", kWorker});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGTERM);
  REQUIRE(launcher.wait_for_output("saving", 2));
  launcher.signal(SIGTERM);  // has no effect
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 128 + SIGTERM);
  CHECK(sorted_lines(job.out) == Words{"[0]<stdout>:ready", "[0]<stdout>:saved", "[0]<stdout>:saving",
                                       "[1]<stdout>:ready", "[1]<stdout>:saved", "[1]<stdout>:saving"});
  CHECK_THAT(job.error,
             StartsWith("dabkerun: SIGTERM: passing it on to all ranks; those still running 30 s later") &&
                 Contains("the job was ended by SIGTERM") && !Contains("killed because"));
}

TEST_CASE("SIGTERM for an agent alone is one for the job") {
  LauncherRun launcher({"-np", "2", kWorker, "count"}, {.environment = {own_mark()}});
  REQUIRE(launcher.wait_for_output("ready", 2));
  std::vector<pid_t> agents = processes_with(own_mark());
  std::erase_if(agents, [&](pid_t pid) { return parent_of(pid) != launcher.pid(); });
  REQUIRE(agents.size() == 1);
  send_signal(agents.front(), SIGTERM);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.error, StartsWith("dabkerun: SIGTERM: passing it on to all ranks"));
}

TEST_CASE("Ctrl-C while hosts are still silent ends dabkerun within 2 s, and what it has started") {
  const bool others_have_come = GENERATE(false, true);
  const TemporaryDirectory directory;
  const std::string hosts = others_have_come ? "localhost:1,other.invalid:1,silent:1" : "silent:1,silent2:1";
  // dabkerun, the shell and the process that it runs; or an agent here and one on the other host.
  const std::size_t all = others_have_come ? 5 : 3;
  const std::string shell = make_shell(directory);
  CHECK(fastest_of([&] {
          LauncherRun launcher(
              {"-H", hosts, "--remote-shell", shell, "--start-timeout", "600", "--verbose", kWorker, "sleep"},
              {.environment = {own_mark()}});
          const auto limit = std::chrono::steady_clock::now() + kPatience;
          while (processes_with(own_mark()).size() < all) {
            REQUIRE(std::chrono::steady_clock::now() < limit);
            std::this_thread::sleep_for(10ms);
          }
          const auto [took, job] = interrupt(launcher);
          CHECK(job.exit_code == 130);
          CHECK_THAT(job.error, EndsWith("dabkerun: the job was ended by SIGINT\n"));
          CHECK(nothing_is_left());
          return took;
        }) < kPrompt);
}

TEST_CASE("Ctrl-C ends ranks that wait in init for one that does not come, within 2 s") {
  CHECK(fastest_of([&] {
          LauncherRun launcher({"-np", "2", "--grace-period", "600", "sh", "-c",
                                "test $DABKE_RANK = 1 && exec sleep 1000; exec \"$0\" sums", RANK_WORKER},
                               {.environment = {own_mark(), "DABKE_START_TIMEOUT_SECONDS=600"}});
          REQUIRE(launcher.wait_for_error("1 of 2 ranks have called dabke_init; waiting for rank 1"));
          const auto [took, job] = interrupt(launcher);
          CHECK(job.exit_code == 130);
          CHECK(nothing_is_left());
          return took;
        }) < kPrompt);
}

}  // namespace dabke::test

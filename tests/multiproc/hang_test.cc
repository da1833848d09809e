// The reports of dabkerun and of the ranks about a job that hangs.
#include <signal.h>

#include <map>
#include <memory>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "runtime/diagnosis/dumps/dump.h"
#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/send_signal.h"

namespace dabke::test {
namespace {

using Catch::Contains;

/// Factor for time limits, so that the slowness of a sanitizer is not taken for a hang.
constexpr int kSlower = test::kSanitized ? 2 : 1;

/// A job of `ranks` ranks in which rank 1 does not submit. It fails after `shutdown` seconds of waiting.
LauncherRun start(const std::string& what, int shutdown, const TemporaryDirectory& place,
                  std::vector<std::string> more = {}, int ranks = 3) {
  LauncherSetup setup{
      .environment = {fmt::format("DABKE_STALL_CHECK_TIME_SECONDS={}", 2 * kSlower), "TMPDIR=" + place.path(),
                      fmt::format("DABKE_STALL_SHUTDOWN_TIME_SECONDS={}", shutdown * kSlower)}};
  setup.environment.insert(setup.environment.end(), more.begin(), more.end());
  return LauncherRun({"-np", std::to_string(ranks), RANK_WORKER, what}, setup);
}

/// The dumps in the directory, by rank.
std::map<Rank, diagnosis::Dump> dumps_in(const TemporaryDirectory& place) {
  std::map<Rank, diagnosis::Dump> dumps;
  for (const auto& entry : std::filesystem::directory_iterator(place.path())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("dabke-dump.")) continue;
    auto dump = diagnosis::parse_dump(place.text_of(name));
    REQUIRE(dump.is_ok());
    CHECK(name.ends_with(".rank" + std::to_string(dump->rank) + ".json"));
    dumps[dump->rank] = dump.take();
  }
  return dumps;
}

/// The lines of dabkerun's verdict, from "hang: " to its end. The last verdict counts: dabkerun prints
/// another one when a rank was late to report its state.
std::vector<std::string> verdict_in(const std::string& error) {
  std::vector<std::string> verdict;
  for (const std::string& line : lines_of(error)) {
    if (line.starts_with("dabkerun: hang: ")) verdict.clear();
    if (line.starts_with("dabkerun: hang: ") || (!verdict.empty() && line.starts_with("dabkerun:   ")))
      verdict.push_back(line.substr(10));
  }
  return verdict;
}

std::size_t occurrences(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE(
    "of a rank that does not come to a call dabkerun tells in eight lines what it does and where it is") {
  const TemporaryDirectory place;
  const Finished job = start("late", 12, place).finish();
  CAPTURE(job.error);
  CHECK(job.exit_code == 3);
  const auto verdict = verdict_in(job.error);
  REQUIRE(verdict.size() >= 5);
  CHECK(verdict.size() <= 8);
  CHECK_THAT(verdict[0],
             Contains("allreduce 'waited for' waits for rank 1: ranks 0,2 have been waiting for "));
  CHECK_THAT(verdict[1], Contains("rank 1 on host ") && Contains("has no other call pending") &&
                             Contains("its last call was allreduce 'together'"));
  if (HAVE_LIBDW) CHECK_THAT(verdict[2], Contains("rank_worker"));
  CHECK_THAT(fmt::format("{}", fmt::join(verdict, "\n")), Contains("pause") && Contains("what to do: "));
  const std::string files = place.path() + "/dabke-dump.";
  CHECK_THAT(verdict.back(), Contains("what the ranks were doing is in " + files) && Contains(".rank*.json"));
  // The list of files appears once for the job. Each rank's own log has one line, and the error that the
  // program gets has the whole text.
  CHECK(occurrences(files, job.error) == 1);
  CHECK_THAT(job.error, Contains("waits for rank 1 on ") && Contains("; dabkerun prints the details."));
  CHECK_THAT(job.out, Contains("]<stdout>:error stalled: ") && Contains("; rank 1 on "));

  const auto dumps = dumps_in(place);
  REQUIRE(dumps.size() == 3);
  CHECK(dumps.at(1).pending.empty());
  REQUIRE(dumps.at(0).pending.size() == 1);
  CHECK(dumps.at(0).pending[0].name == "waited for");
  CHECK(dumps.at(0).submitted == 2);
  REQUIRE_FALSE(dumps.at(1).stacks.empty());
  CHECK(dumps.at(1).stacks[0].thread == dumps.at(1).pid);
  const std::vector<std::string> ends = {"submitted", "ordered", "started", "finished"};
  std::vector<std::string> seen;
  for (const diagnosis::Dump::Event& event : dumps.at(1).events) seen.push_back(event.what);
  CHECK(seen == ends);
}

TEST_CASE("a warning tells where a rank sleeps and does not cut its sleep short") {
  const std::vector<std::string> calls = {"sleep", "nanosleep", "poll", "select", "epoll_wait"};
  const TemporaryDirectory place;
  // The check comes so late that all other ranks are there, also on a slow machine. Otherwise dabkerun would
  // print the whole report again, with both ranks.
  const std::string check = "DABKE_STALL_CHECK_TIME_SECONDS=6";
  std::vector<std::unique_ptr<LauncherRun>> jobs;  // in parallel: they sleep
  for (const std::string& call : calls)
    jobs.emplace_back(new LauncherRun(start("late-in-" + call, 0, place, {check})));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string& call = calls[i];
    const Finished job = jobs[i]->finish();
    CAPTURE(call, job.out, job.error);
    CHECK(job.exit_code == 0);
    CHECK_THAT(job.out, Contains("[1]<stdout>:slept in full"));
    CHECK_THAT(job.error, Contains("waits for rank 1 on ") && Contains(call == "sleep" ? "nanosleep" : call));
    if (HAVE_LIBDW) CHECK_THAT(job.error, Contains("sleeps_in_full"));  // without libdw, callers are unknown
    // The whole report appears once; after that, a line refers to it.
    CHECK(occurrences("dabkerun: hang: ", job.error) == 1);
    CHECK_THAT(job.error, Contains("'waited for' waits for rank 1 on ") && Contains(", as reported "));
  }
}

TEST_CASE("of ranks that call different operations dabkerun shows both") {
  const TemporaryDirectory place;
  LauncherRun launcher = start("late-elsewhere", 0, place);
  REQUIRE(launcher.wait_for_error("calls differ at call "));
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CAPTURE(job.error);
  CHECK_THAT(job.error, Contains("it waits for allreduce 'other' instead") ||
                            Contains("it waits for allreduce 'waited for' instead"));
  CHECK_THAT(job.error,
             Contains(": rank 0 called allreduce '") && Contains("make the same calls on all ranks"));
}

TEST_CASE("of a stopped rank dabkerun tells that its process is stopped") {
  const TemporaryDirectory place;
  LauncherRun job = start("late", 20, place);
  REQUIRE(job.wait_for_output("ready "));
  const pid_t pid = job.number_after("ready ");
  send_signal(pid, SIGSTOP);
  const Finished ended = job.finish();
  CAPTURE(ended.error);
  CHECK_THAT(ended.error, Contains("rank 1 does not answer: its process is stopped"));
  CHECK(is_gone(pid));
}

TEST_CASE("what a rank tells of itself too late for the verdict makes another one") {
  const TemporaryDirectory place;
  LauncherRun launcher = start("late", 0, place);
  REQUIRE(launcher.wait_for_output("[2]<stdout>:waiting "));
  const pid_t pid = launcher.number_after("[2]<stdout>:waiting ");
  send_signal(pid, SIGSTOP);
  REQUIRE(launcher.wait_for_error("rank 2 does not answer: its process is stopped"));
  send_signal(pid, SIGCONT);
  CHECK(launcher.wait_for_error("waits for rank 1: ranks 0,2 have been waiting for "));
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CAPTURE(job.error);
  const auto verdict = verdict_in(job.error);
  REQUIRE(verdict.size() > 2);
  CHECK_THAT(verdict[0], Contains("waits for rank 1: ranks 0,2 have been waiting for "));
  CHECK_THAT(verdict[1], Contains("its last call was allreduce 'together'"));
}

TEST_CASE("a join that a rank does not come to is reported and ended") {
  const TemporaryDirectory place;
  const Finished job = start("late-join", 12, place).finish();
  CAPTURE(job.out, job.error);
  CHECK(job.exit_code == 3);
  CHECK_THAT(job.out, Contains("ranks 0, 2 wait in join; rank 1 on "));
  CHECK_THAT(job.error, Contains("dabkerun: hang: join waits for rank 1: ranks 0,2 have been waiting"));
  CHECK_THAT(job.out,
             Contains("]<stdout>:error stalled: "));  // the first's; dabkerun ends the others
}

TEST_CASE("a rank that is stopped while data moves is named, and the job ends") {
  const std::string backend = GENERATE("shm", "tcp", "gloo");
  const TemporaryDirectory place;
  std::vector<std::unique_ptr<LauncherRun>> jobs;  // in parallel: they wait for the stopped rank
  std::vector<pid_t> pids;
  for (const Rank late : {0, 1}) {
    jobs.emplace_back(new LauncherRun(start("moving", 12, place, {"DABKE_CPU_OPERATIONS=" + backend})));
    REQUIRE(jobs.back()->wait_for_output("ready ", 3));
    pids.push_back(jobs.back()->number_after("[" + std::to_string(late) + "]<stdout>:ready "));
    send_signal(pids.back(), SIGSTOP);
  }
  for (const Rank late : {0, 1}) {
    const pid_t pid = pids[static_cast<std::size_t>(late)];
    const Finished ended = jobs[static_cast<std::size_t>(late)]->finish();
    CAPTURE(backend, late, ended.out, ended.error);
    CHECK(ended.exit_code == 3);
    const std::string stopped = "does not answer: its process " + std::to_string(pid) + " is stopped";
    CHECK_THAT(ended.error, Contains("Stalled for ") && Contains("rank " + std::to_string(late) + " on ") &&
                                Contains(stopped));
    CHECK_THAT(ended.error,
               Contains("dabkerun: hang: ") &&
                   Contains("rank " + std::to_string(late) + " does not answer: its process is stopped"));
    CHECK_THAT(ended.out, Contains("]<stdout>:error stalled: ") && Contains(stopped));
    CHECK(is_gone(pid));
  }
}

TEST_CASE("a stopped rank that goes on only to be ended is told as the others saw it") {
  const TemporaryDirectory place;
  LauncherRun job = start("late-stubborn", 12, place);  // lives on after SIGCONT, and reports
  REQUIRE(job.wait_for_output("waiting ", 2));
  send_signal(job.number_after("[0]<stdout>:waiting "), SIGSTOP);
  const Finished ended = job.finish();
  CAPTURE(ended.out, ended.error);
  CHECK(ended.exit_code == 3);
  CHECK_THAT(ended.error,
             Contains("dabkerun: hang: ") && Contains("rank 0 does not answer: its process is stopped"));
}

TEST_CASE("a stopped rank 0, or leader of a host, is reported by those who wait, and the job ends") {
  const Rank stopped = GENERATE(0, 2);
  const TemporaryDirectory place;
  LauncherRun job = start("late", 12, place, {"DABKE_TEST_RANKS_PER_HOST=2"}, 4);
  REQUIRE(job.wait_for_output("waiting ", 3));
  const pid_t pid = job.number_after("[" + std::to_string(stopped) + "]<stdout>:waiting ");
  send_signal(pid, SIGSTOP);
  const Finished ended = job.finish();
  CAPTURE(stopped, ended.out, ended.error);
  CHECK(ended.exit_code == 3);
  const Rank below = stopped == 0 ? 2 : 3;
  CHECK_THAT(ended.error,
             Contains(fmt::format("dabke rank {} warning] Stalled for ", below)) &&
                 Contains(fmt::format("rank {} on host-{}, through which rank {} on host-1 reports, "
                                      "does not answer: its process {} is stopped",
                                      stopped, stopped / 2, below, pid)));
  CHECK_THAT(ended.error,
             Contains("dabkerun: hang: ") &&
                 Contains(fmt::format("rank {} does not answer: its process is stopped", stopped)));
  CHECK_THAT(ended.out,
             Contains("]<stdout>:error stalled: "));  // the first's; dabkerun ends the others
  CHECK(is_gone(pid));
}

TEST_CASE("the dump signal makes all ranks write dumps when one of them gets it") {
  const TemporaryDirectory place;
  LauncherRun job = start("late", 0, place, {"DABKE_DUMP_SIGNAL=USR2", "DABKE_STALL_CHECK_TIME_SECONDS=60"});
  REQUIRE(job.wait_for_output("ready "));
  REQUIRE(job.wait_for_output("waiting", 2));
  send_signal(job.number_after("ready "), SIGUSR2);
  REQUIRE(job.wait_for_error("what the ranks were doing is in "));
  const auto dumps =
      dumps_in(place);  // read before the end: ranks that lose a neighbour then write dumps as well
  job.signal(SIGTERM);
  const Finished ended = job.finish();
  CAPTURE(ended.error);
  CHECK(dumps.size() == 3);
  CHECK_THAT(ended.error, Contains("dabkerun: hang: allreduce 'waited for' waits for rank 1"));
  for (const auto& [rank, dump] : dumps) CHECK(dump.reason == "rank 1 received SIGUSR2");
}

TEST_CASE("DABKE_DUMP_DIR=none writes no file, and without native stacks there are none") {
  const TemporaryDirectory place;
  LauncherRun launcher = start("late", 0, place, {"DABKE_DUMP_DIR=none", "DABKE_DISABLE_NATIVE_STACKS=1"});
  REQUIRE(launcher.wait_for_error("dabkerun: hang: "));
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CHECK(dumps_in(place).empty());
  CHECK_THAT(job.error, Contains("dabkerun: hang: allreduce 'waited for' waits for rank 1"));
  CHECK_THAT(job.error, !Contains("pause"));
}

}  // namespace dabke::test

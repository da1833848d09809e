// Threads that cannot be started, in init and after it.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "dabke/dabke.h"
#include "tests/shortage/failing_threads.h"
#include "tests/shortage/floats.h"
#include "tests/shortage/processes.h"

namespace dabke::test {
namespace {

/// The signals that the calling thread blocks, from the kernel.
std::string blocked_signals() {
  std::ifstream status("/proc/thread-self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) return line;
  }
  return "";
}

void say_status(const std::string& call, dabke_status status) {
  say(call + " " + dabke_status_name(status) +
      (status == DABKE_OK ? "" : std::string(": ") + dabke_last_error()));
}

dabke_status allreduce(const char* name) {
  Floats<4> x;
  return dabke_allreduce(name, &x.tensor, &x.tensor, nullptr);
}

/// Switches to an ordinary user, because limits do not apply to root.
void become_somebody() {
  constexpr uid_t kNobodyElse = 54321;
  if (::getuid() == 0 && ::setresuid(kNobodyElse, kNobodyElse, kNobodyElse) != 0) std::abort();
}

void allow_no_more_threads() {
  const rlimit none{1, 1};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) std::abort();
}

/// Runs one call with a callback, which must be called.
void say_whether_callbacks_come() {
  static std::atomic<int> called{0};
  dabke_options options = DABKE_OPTIONS_INIT;
  options.callback = [](void*, dabke_handle*, dabke_status) {
    called = 1;
    called.notify_one();
  };
  Floats<4> x;
  dabke_handle* handle = nullptr;
  say_status("submit", dabke_allreduce_async("x", &x.tensor, &x.tensor, &options, &handle));
  say_status("wait", dabke_wait(handle, -1));
  dabke_handle_free(handle);
  called.wait(0);
  say("called back");
}

constexpr const char* kLimits = "(RLIMIT_NPROC, ulimit -u), the control group's: ";

}  // namespace

TEST_CASE(
    "an init that cannot start a thread says which and why, leaves signals as they were, and tells all") {
  const auto rank_where_it_fails = GENERATE(0, 1);
  std::vector<std::string> failed;
  for (int before = 0;; ++before) {
    const auto ended = run_processes(2, [&](int rank) {
      const std::string blocked = blocked_signals();
      if (rank == rank_where_it_fails) let_a_thread_fail(before);
      const dabke_status status = dabke_init(nullptr);
      say_status("init", status);
      if (blocked_signals() == blocked) say("signals as before");
      if (status == DABKE_OK) say_status("barrier", dabke_barrier(nullptr));
      say_status("shutdown", dabke_shutdown());
    });
    const Ended& here = ended[static_cast<std::size_t>(rank_where_it_fails)];
    const Ended& there = ended[static_cast<std::size_t>(1 - rank_where_it_fails)];
    INFO("after " << before << " threads\nwhere one fails:\n" << here.said << "\nthe other:\n" << there.said);
    CHECK(here.code == 0);
    CHECK(there.code == 0);
    CHECK(here.says("signals as before"));
    CHECK(here.says("shutdown ok"));
    CHECK(there.says("shutdown ok"));
    if (here.says("init ok")) {
      CHECK(here.says("barrier ok"));
      CHECK(there.says("barrier ok"));
      break;
    }
    CHECK(here.says("init transport: cannot start thread 'dabke-"));
    CHECK(here.says(kLimits));
    const auto name = here.said.find("'dabke-");
    if (name != std::string::npos)
      failed.push_back(here.said.substr(name + 1, here.said.find('\'', name + 1) - name - 1));
    CHECK(there.says("barrier transport: "));
    CHECK(there.says("rank " + std::to_string(rank_where_it_fails) + " on "));
    CHECK(there.says("cannot start thread 'dabke-"));
  }
  // All threads that a job needs exist before it begins, even those that report a hang and that call back.
  CHECK(failed ==
        std::vector<std::string>{"dabke-report", "dabke-host-lane", "dabke-callback", "dabke-coord"});
}

TEST_CASE("without a thread to be had after init, a job warns, dumps, calls back and ends as ever") {
  char directory[] = "/tmp/dabke-shortage-dumps-XXXXXX";
  REQUIRE(::mkdtemp(directory) != nullptr);
  const std::string place = directory;
  const auto ended = run_processes(2, [&](int rank) {
    const std::string blocked = blocked_signals();
    ::setenv("DABKE_STALL_CHECK_TIME_SECONDS", "0.3", 1);
    ::setenv("DABKE_DUMP_DIR", place.c_str(), 1);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::abort();
    say_status("provider", dabke_set_stack_provider(
                               [](void*, char* text, size_t room) -> size_t {
                                 return static_cast<size_t>(std::snprintf(text, room, "where it is"));
                               },
                               nullptr));
    say_status("init", dabke_init(nullptr));
    let_all_threads_fail();
    if (rank == 1) {  // when a tensor stalls, every rank writes a dump
      const auto is_written = [&] {
        bool of_rank[2] = {};
        for (const auto& entry : std::filesystem::directory_iterator(place)) {
          for (const int one : {0, 1})
            of_rank[one] |= entry.path().string().find(".rank" + std::to_string(one)) != std::string::npos;
        }
        return of_rank[0] && of_rank[1];
      };
      while (!is_written()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    say_whether_callbacks_come();
    const std::string dump = place + "/asked-for-" + std::to_string(rank);
    say_status("dump", dabke_dump(dump.c_str()));
    std::ifstream file(dump);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (text.find("the stack provider was not called: cannot start thread 'dabke-stack'") !=
        std::string::npos)
      say("the dump says why it lacks a stack");
    say_status("timeline", dabke_start_timeline((place + "/trace.json").c_str(), 0));
    say_status("then", allreduce("y"));
    if (blocked_signals() == blocked) say("signals as before");
    say_status("shutdown", dabke_shutdown());
  });
  std::filesystem::remove_all(place);
  for (int rank = 0; rank < 2; ++rank) {
    const Ended& one = ended[static_cast<std::size_t>(rank)];
    INFO("rank " << rank << ":\n" << one.said);
    CHECK(one.code == 0);
    CHECK(one.says("wait ok"));
    CHECK(one.says("called back"));
    CHECK(one.says("dump ok"));
    CHECK(one.says("the dump says why it lacks a stack"));
    CHECK(one.says("then ok"));
    CHECK(one.says("signals as before"));
    CHECK(one.says("shutdown ok"));
  }
  CHECK(ended[0].says("timeline transport: cannot start thread 'dabke-timeline'"));
  CHECK(ended[0].says(kLimits));
}

TEST_CASE("a backend that cannot start its threads ends the job with that cause on all ranks") {
  // The first thread is that of Gloo's device. The second one ends a run whose peer is gone.
  const auto before = GENERATE(0, 1);
  const auto ended = run_processes(2, [&](int rank) {
    const std::string blocked = blocked_signals();
    ::setenv("DABKE_CPU_OPERATIONS", "gloo", 1);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::abort();
    say_status("init", dabke_init(nullptr));
    if (rank == 1) let_a_thread_fail(before);
    say_status("allreduce", allreduce("x"));
    if (blocked_signals() == blocked) say("signals as before");
    say_status("shutdown", dabke_shutdown());
  });
  for (const Ended& one : ended) {
    INFO(one.said);
    CHECK(one.code == 0);
    CHECK(one.says("init ok"));
    CHECK(one.says("allreduce transport: "));
    CHECK(one.says(before == 0 ? "cannot start thread 'of Gloo'" : "cannot start thread 'dabke-gloo'"));
    CHECK(one.says(kLimits));
    CHECK(one.says("signals as before"));
    CHECK(one.says("shutdown ok"));
  }
}

TEST_CASE("the kernel's own limit of a user's processes is told by init, and harms nobody after it") {
  const auto refused = run_processes(1, [](int) {
    become_somebody();
    const std::string blocked = blocked_signals();
    allow_no_more_threads();
    say_status("init", dabke_init(nullptr));
    if (blocked_signals() == blocked) say("signals as before");
  })[0];
  INFO(refused.said);
  CHECK(refused.code == 0);
  CHECK(refused.says("init transport: cannot start thread"));
  CHECK(refused.says("The user's processes and threads: 1 (RLIMIT_NPROC"));
  CHECK(refused.says("signals as before"));

  const auto later = run_processes(1, [](int) {
    become_somebody();
    say_status("init", dabke_init(nullptr));
    allow_no_more_threads();
    say_whether_callbacks_come();
    const std::string trace = "/tmp/dabke_no_thread_for_this." + std::to_string(::getpid());
    say_status("timeline", dabke_start_timeline(trace.c_str(), 0));
    say_status("shutdown", dabke_shutdown());
    ::unlink((trace + ".rank0").c_str());
  })[0];
  INFO(later.said);
  CHECK(later.code == 0);
  CHECK(later.says("init ok"));
  CHECK(later.says("called back"));
  CHECK(later.says("timeline transport: cannot start thread 'dabke-timeline'"));
  CHECK(later.says("shutdown ok"));
}

}  // namespace dabke::test

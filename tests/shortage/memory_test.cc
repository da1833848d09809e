// Memory runs out at each point of a small job, at one point after the other.
//  * On that rank, the call fails and reports the shortage.
//  * The other rank gets that cause, or its result.
//  * Neither rank crashes, hangs or leaves anything behind.
//
// DABKE_TEST_MEMORY_EVERY=1 tests every request for memory up to number 2,000, and every 17th after
// that. By default, the test takes fewer.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "dabke/dabke.h"
#include "tests/shortage/failing_memory.h"
#include "tests/shortage/floats.h"
#include "tests/shortage/processes.h"

namespace dabke::test {
namespace {

std::size_t entries_of(const char* directory) {
  const std::filesystem::directory_iterator all(directory);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// The descriptors of this process, and the files that they refer to.
std::map<std::string, std::string> open_files() {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of this list itself
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && !target.string().ends_with("/fd")) files[entry.path().filename().string()] = target.string();
  }
  return files;
}

/// A small job that uses everything once, until a call fails.
class SmallJob {
 public:
  /// The first call that failed, and its error; "" if none did.
  const std::string& failure() const { return failure_; }
  bool failed() const { return !failure_.empty(); }

  void run() {
    if (!call("init", [] { return dabke_init(nullptr); })) return;
    (void)(single() && grouped() && unknown_sizes() && asynchronous() && sets() && inside() &&
           call("join", [] { return dabke_join(nullptr, nullptr); }));
    if (failed()) {  // as an application does: otherwise the other rank would wait for calls of this rank
      const InLibrary in_library;
      if (dabke_abort(failure_.c_str()) != DABKE_OK) say("abort failed");
    }
    call("shutdown", dabke_shutdown);
    if (dabke_is_initialized() != 0) dabke_shutdown();
  }

 private:
  template <class Function>
  bool call(const char* name, Function function) {
    dabke_status status = DABKE_OK;
    {
      const InLibrary in_library;
      status = function();
    }
    if (status != DABKE_OK && !failed()) {
      failure_ = std::string(name) + " " + dabke_status_name(status) + ": " + dabke_last_error();
    }
    return status == DABKE_OK;
  }

  bool single() {
    Floats<8> x, half;
    half.count = 4;
    for (int step = 0; step < 3; ++step) {
      if (!call("allreduce", [&] { return dabke_allreduce("x", &x.tensor, &x.tensor, nullptr); }))
        return false;
    }
    return call("broadcast", [&] { return dabke_broadcast("b", &x.tensor, &x.tensor, nullptr); }) &&
           call("reducescatter",
                [&] { return dabke_reducescatter("r", &x.tensor, &half.tensor, nullptr); }) &&
           call("barrier", [] { return dabke_barrier(nullptr); });
  }
  bool grouped() {
    Floats<8> a, b;
    const char* const names[] = {"ga", "gb"};
    const DLTensor* const tensors[] = {&a.tensor, &b.tensor};
    return call("group", [&] { return dabke_grouped_allreduce(names, tensors, tensors, 2, nullptr); });
  }
  bool unknown_sizes() {
    Floats<8> x;
    dabke_handle* gathered = nullptr;
    dabke_handle* exchanged = nullptr;
    const bool done =
        call("allgather", [&] { return dabke_allgather("g", &x.tensor, nullptr, &gathered); }) &&
        call("alltoall", [&] { return dabke_alltoall("t", &x.tensor, nullptr, &exchanged); }) &&
        call("output", [&] {
          const DLTensor* output = nullptr;
          return dabke_handle_output(gathered, 0, &output);
        });
    dabke_handle_free(gathered);
    dabke_handle_free(exchanged);
    return done;
  }
  bool asynchronous() {
    Floats<8> x, y;
    std::atomic<int> called{0};
    dabke_options options = DABKE_OPTIONS_INIT;
    options.callback_context = &called;
    options.callback = [](void* count, dabke_handle*, dabke_status) {
      auto& calls = *static_cast<std::atomic<int>*>(count);
      ++calls;
      calls.notify_one();
    };
    dabke_handle* first = nullptr;
    dabke_handle* second = nullptr;
    bool done =
        call("submit", [&] { return dabke_allreduce_async("c", &x.tensor, nullptr, &options, &first); }) &&
        call("submit", [&] { return dabke_allreduce_async("d", &y.tensor, nullptr, nullptr, &second); });
    // Waits for every submitted operation: the runtime uses these tensors until then.
    for (dabke_handle* const handle : {first, second}) {
      if (handle == nullptr) continue;
      if (!done) {
        const InLibrary in_library;
        dabke_abort(failure_.c_str());
      }
      done = call("wait", [&] { return dabke_wait(handle, -1); }) && done;
      while (dabke_poll(handle) == 0) dabke_wait(handle, -1);
    }
    if (first != nullptr) called.wait(0);
    dabke_handle_free(first);
    dabke_handle_free(second);
    return done;
  }
  bool sets() {
    dabke_process_set set = 0;
    dabke_process_set ids[8];
    std::size_t count = 0;
    const int32_t alone[] = {0};
    return call("add set", [&] { return dabke_add_process_set(alone, 1, &set); }) &&
           call("ids", [&] { return dabke_process_set_ids(ids, 8, &count); }) &&
           call("ranks", [&] { return dabke_process_set_ranks(0, nullptr, 0, &count); }) &&
           call("remove set", [&] { return dabke_remove_process_set(set); });
  }
  bool inside() {
    dabke_statistics statistics;
    statistics.struct_size = sizeof statistics;
    dabke_config_row row;
    row.struct_size = sizeof row;
    dabke_collective_statistics collective;
    collective.struct_size = sizeof collective;
    double late = 0;
    const std::string place = std::getenv("DABKE_TEST_PLACE");
    const std::string trace = place + "/trace" + std::to_string(dabke_rank());
    const std::string dump = place + "/dump" + std::to_string(dabke_rank());
    return call("statistics", [&] { return dabke_get_statistics(&statistics); }) &&
           call("config", [&] { return dabke_config_get(0, &row); }) &&
           call("collective statistics", [&] { return dabke_get_collective_statistics(0, &collective); }) &&
           call("late", [&] { return dabke_get_late_seconds(0, &late); }) &&
           call("timeline", [&] { return dabke_start_timeline(trace.c_str(), 1); }) &&
           call("dump", [&] { return dabke_dump(dump.c_str()); }) &&
           call("barrier", [] { return dabke_barrier(nullptr); }) &&
           call("stop timeline", [] { return dabke_stop_timeline(); }) && call("provider", [] {
             return dabke_set_stack_provider([](void*, char*, std::size_t) -> std::size_t { return 0; },
                                             nullptr);
           });
  }

  std::string failure_;
};

constexpr const char* kStartTimeout = kSanitized ? "20" : "3";
constexpr const char* kLongStartTimeout = "60";

/// Runs a rank in which request `number` fails; 0: none.
void live(int number, bool from_then_on, const char* start_timeout) {
  ::setenv("DABKE_START_TIMEOUT_SECONDS", start_timeout, 1);
  ::setenv("DABKE_DUMP_DIR", "none", 1);
  ::setenv("DABKE_TIMELINE_FORMAT", "horovod", 1);  // each rank names a file of its own
  if (std::freopen("/dev/null", "w", stderr) == nullptr) std::abort();
  std::thread([] {}).join();  // a sanitizer starts a thread of its own together with the first one
  const std::size_t threads = entries_of("/proc/self/task");
  const std::map<std::string, std::string> files = open_files();
  if (number > 0) let_memory_fail(number, from_then_on);
  SmallJob job;
  job.run();
  if (number > 0 && memory_requests() < number) say("not reached");
  let_memory_fail(1 << 30);
  say(job.failed() ? job.failure() : "all ok");
  // A joined thread stays in that list until the kernel has removed it.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (entries_of("/proc/self/task") != threads && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  if (entries_of("/proc/self/task") != threads) say("left: threads");
  for (const auto& [number, target] : open_files()) {
    // Gloo leaves that list open if it cannot read all of it.
    if (!files.contains(number) && target != "/sys/bus/pci/devices")
      say("left: descriptor " + number + ", " + target);
  }
  say("end");
}

bool is_about_memory(const Ended& rank) { return rank.says("out_of_memory") || rank.says("out of memory"); }

/// Returns what is wrong with one job; "" if nothing is.
std::string verdict(const Ended& where_it_failed, const Ended& other) {
  std::string wrong;
  for (const Ended* rank : {&where_it_failed, &other}) {
    if (rank->code == -1) wrong += "hangs; ";
    if (rank->code > 0) wrong += "ends with " + std::to_string(rank->code) + "; ";
    if (!rank->says("\nend\n") && rank->code == 0) wrong += "says nothing; ";
    // A half-made device of Gloo keeps its open descriptors.
    if (rank->says("left: ") && !rank->says("Gloo ran out of memory")) wrong += "leaves something; ";
  }
  const bool in_init = where_it_failed.says("init ");
  if (!where_it_failed.says("all ok") && !is_about_memory(where_it_failed)) wrong += "another error; ";
  if (!other.says("all ok") && !in_init && !is_about_memory(other)) wrong += "the other rank was not told; ";
  return wrong;
}

/// True if only an init has failed, and not for lack of memory: one rank was
/// late, perhaps because of the machine.
bool came_late(const Ended& here, const Ended& there) {
  const bool in_init = here.says("init ") || there.says("init ");
  return here.code == 0 && there.code == 0 && in_init && !is_about_memory(here);
}

/// The next request that fails.
int next(int number) {
  const int every = times("DABKE_TEST_MEMORY_EVERY", kSanitized ? 293 : 61);
  return number + (every == 1 && number >= 2000 ? 17 : every);
}

}  // namespace

TEST_CASE(
    "wherever memory runs out, the call says so, the other rank hears of it, and nobody crashes or hangs") {
  const int failing_rank = GENERATE(0, 1);
  const char* const backend = GENERATE("auto", "tcp");
  constexpr int kAtOnce = 16;  // most of the time is spent waiting for missing ranks
  ::setenv("DABKE_CPU_OPERATIONS", backend, 1);
  const char* const first = std::getenv("DABKE_TEST_MEMORY_FROM");
  int number = first != nullptr ? std::atoi(first) : 1;
  int wrong_ones = 0, tried = 0;
  for (bool reached = true; reached && wrong_ones < 20;) {
    std::array<int, kAtOnce> numbers{};
    for (int& one : numbers) {
      one = number;
      number = next(number);
    }
    const auto ended = run_jobs(kAtOnce, 2, [&](int job, int rank) {
      live(rank == failing_rank ? numbers[static_cast<std::size_t>(job)] : 0, false, kStartTimeout);
    });
    for (std::size_t job = 0; job < kAtOnce; ++job) {
      Ended here = ended[job][static_cast<std::size_t>(failing_rank)];
      Ended there = ended[job][static_cast<std::size_t>(1 - failing_rank)];
      std::string wrong = verdict(here, there);
      if (!wrong.empty() && came_late(here, there)) {
        const auto again = run_processes(
            2, [&](int rank) { live(rank == failing_rank ? numbers[job] : 0, false, kLongStartTimeout); });
        here = again[static_cast<std::size_t>(failing_rank)];
        there = again[static_cast<std::size_t>(1 - failing_rank)];
        wrong = verdict(here, there);
      }
      INFO(backend << ", request " << numbers[job] << " of rank " << failing_rank << ": " << wrong
                   << "\nthere:\n"
                   << here.said << "the other rank:\n"
                   << there.said);
      CHECK(wrong.empty());
      wrong_ones += !wrong.empty();
      ++tried;
      if (here.says("not reached")) {
        CHECK(here.says("all ok"));
        CHECK(there.says("all ok"));
        reached = false;
      }
    }
  }
  WARN(backend << ", rank " << failing_rank << ": " << tried << " jobs, the last with request " << number);
  ::unsetenv("DABKE_CPU_OPERATIONS");
}

}  // namespace dabke::test

// A process that ends while the job starts.
#include <csignal>
#include <cstdlib>
#include <thread>

#include "c_worker.h"

#ifdef __SANITIZE_THREAD__
/// A process that exits in the middle of init leaves its threads behind, on purpose.
extern "C" const char* __tsan_default_options() { return "report_thread_leaks=0"; }
#endif

namespace worker::c {

namespace {

std::chrono::microseconds told_time() {
  return std::chrono::microseconds(std::atoi(std::getenv("DABKE_TEST_AFTER_US")));
}

}  // namespace

/// One thread starts and ends jobs while another ends the process.
void exits_in_init() {
  std::thread([] {
    for (;;) {
      dabke_init(nullptr);
      dabke_shutdown();
    }
  }).detach();
  std::this_thread::sleep_for(told_time());
  std::exit(0);
}

/// Rank DABKE_TEST_VICTIM is killed DABKE_TEST_AFTER_US microseconds after it has begun init. The other ranks
/// sum until they fail.
void dies_in_init() {
  if (launched_rank() == std::atoi(std::getenv("DABKE_TEST_VICTIM"))) {
    const std::chrono::microseconds after = told_time();
    std::thread([after] {
      std::this_thread::sleep_for(after);
      std::raise(SIGKILL);
    }).detach();
  }
  const Job job;
  for (;;) {
    Array array({1});
    must(dabke_allreduce("sum", &array.tensor, nullptr, nullptr), "sum");
  }
}

}  // namespace worker::c

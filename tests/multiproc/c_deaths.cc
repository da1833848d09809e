// A rank that dies while the job starts.
#include <csignal>
#include <cstdlib>
#include <thread>

#include "c_worker.h"

namespace worker::c {

/// Rank DABKE_TEST_VICTIM is killed so many microseconds after it has begun with init; the others sum until
/// they fail.
void dies_in_init() {
  if (launched_rank() == std::atoi(std::getenv("DABKE_TEST_VICTIM"))) {
    const std::chrono::microseconds after(std::atoi(std::getenv("DABKE_TEST_AFTER_US")));
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

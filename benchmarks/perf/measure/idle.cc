#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "benchmarks/perf/competitors/check.h"
#include "benchmarks/perf/measure/measure.h"

namespace dabke::perf {
namespace {

// By then, all later work of a call has ended, and a backend has given back
// what it frees after 5 s without a run.
constexpr auto kSettle = std::chrono::milliseconds(5500);

/// The usage of all threads except the calling one, which is the application's.
struct Used {
  double cpu_seconds = 0;
  double wake_ups = 0;
};

Used used_so_far() {
  Used used;
  const std::string own = std::to_string(::syscall(SYS_gettid));
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == own) continue;
    double ns = 0;
    if (std::ifstream(task.path() / "schedstat") >> ns) used.cpu_seconds += ns * 1e-9;
    std::ifstream status(task.path() / "status");
    constexpr std::string_view kSwitches = "voluntary_ctxt_switches:";
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(kSwitches)) used.wake_ups += std::stod(line.substr(kSwitches.size()));
  }
  return used;
}

void observe(Bench& bench, Row& row) {
  bench.team.barrier();
  const Used before = used_so_far();
  const auto begin = Clock::now();
  std::this_thread::sleep_for(seconds_to_duration(bench.options.seconds));
  const Used after = used_so_far();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  row.more["cpu_percent"].push_back(bench.team.max((after.cpu_seconds - before.cpu_seconds) / seconds * 100));
  row.more["wake_ups_per_second"].push_back(bench.team.max((after.wake_ups - before.wake_ups) / seconds));
}

}  // namespace

Result<std::vector<Row>> run_idle(Bench& bench) {
  Call call =
      call_of(CollectiveKind::allreduce, DType::f32, ReduceOp::sum, bench.team.rank(), bench.team.size(), 8);
  DABKE_ASSIGN_OR_RETURN(const Memory memory, Memory::make(bench, call.bytes()));
  call.input = call.output = memory.data();
  std::vector<Row> rows;
  for (const auto& competitor : bench.competitors) {
    Row row = row_of(bench, *competitor, call);
    row.mode = "idle";
    fill_with_neutral(call);
    DABKE_RETURN_IF_ERROR(competitor->begin(call));
    DABKE_RETURN_IF_ERROR(competitor->run());  // so that everything that the first use makes is there
    std::this_thread::sleep_for(kSettle);
    for (int run = 0; run < bench.options.runs; ++run) {
      bench.say(fmt::format("{}, run {} of {}", competitor->name(), run + 1, bench.options.runs));
      observe(bench, row);
    }
    competitor->end();
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace dabke::perf

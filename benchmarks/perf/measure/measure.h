// Timing: the number of calls, and their time. All functions are collective.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/perf/competitors/competitor.h"
#include "benchmarks/perf/measure/team.h"
#include "benchmarks/perf/options.h"
#include "benchmarks/perf/report/results.h"
#include "runtime/links/shm/shared_heap.h"

namespace dabke::perf {

/// The tools of a mode.
struct Bench {
  const Options& options;
  Team& team;
  std::string job;
  int cores = 1;
  shm::SharedHeap* heap = nullptr;  // for backends that are called directly; null: that of dabke_alloc
  std::vector<std::unique_ptr<Competitor>> competitors;
  TimePoint last_said = Clock::now();

  /// Rank 0 prints its progress on stderr now and then.
  void say(const std::string& where);
};

/// Memory for inputs or outputs, touched by this rank.
class Memory {
 public:
  /// Allocates memory as --memory demands. Errors: out_of_memory, or the error of dabke_alloc.
  static Result<Memory> make(const Bench& bench, std::int64_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> data_;
};

/// Microseconds of one call among `calls`, until the last rank has ended. After `limit_us`, it
/// stops at fewer calls, but at least one.
Result<double> time_calls(Competitor& competitor, Team& team, std::int64_t calls, double limit_us);
/// The limit that no run exceeds by much.
inline double most_us(const Options& options) { return options.seconds * 3e6; }
/// The number of calls that fit into the time of a run; at least one, and the same on every rank.
Result<std::int64_t> calls_for(Competitor& competitor, Team& team, const Options& options);
/// Runs a few calls that are not timed; fewer if one takes long.
Status warm_up(Competitor& competitor, const Options& options, std::int64_t calls);

/// Counts the wrong elements of all ranks after one call. The call must have begun.
Result<std::int64_t> check_call(Competitor& competitor, Team& team, const Call& call, int salt);

/// The common part of all rows of a mode.
Row row_of(const Bench& bench, const Competitor& competitor, const Call& call);

/// A collective at all sizes, every competitor in turn.
Result<std::vector<Row>> run_sweep(Bench& bench);
/// Single calls, each timed.
Result<std::vector<Row>> run_latency(Bench& bench);
/// The cost of a job that does nothing.
Result<std::vector<Row>> run_idle(Bench& bench);
/// Many tensors submitted at once, against one tensor of the same bytes.
Result<std::vector<Row>> run_steps(Bench& bench);

}  // namespace dabke::perf

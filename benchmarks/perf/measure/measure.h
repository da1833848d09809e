// Timing: how many calls, and what they take. All of it is collective.
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

/// What a mode measures with.
struct Bench {
  const Options& options;
  Team& team;
  std::string job;
  int cores = 1;
  shm::SharedHeap* heap = nullptr;  // for backends that are called directly; null: dabke_alloc's is used
  std::vector<std::unique_ptr<Competitor>> competitors;
  TimePoint last_said = Clock::now();

  /// Rank 0 says on stderr, now and then, where it is.
  void say(const std::string& where);
};

/// Memory for inputs or outputs, touched by this rank.
class Memory {
 public:
  /// Memory as --memory says. Code out_of_memory, or what dabke_alloc says.
  static Result<Memory> make(const Bench& bench, std::int64_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> data_;
};

/// Microseconds of one call among `calls`, until the last rank has ended. When `limit_us` are over it may be
/// among fewer, of which there is at least one.
Result<double> time_calls(Competitor& competitor, Team& team, std::int64_t calls, double limit_us);
/// No run takes much longer than this.
inline double most_us(const Options& options) { return options.seconds * 3e6; }
/// How many calls fit into the time of a run; at least one, and the same on every rank.
Result<std::int64_t> calls_for(Competitor& competitor, Team& team, const Options& options);
/// Not timed: a few calls, fewer where one is long.
Status warm_up(Competitor& competitor, const Options& options, std::int64_t calls);

/// Elements of all ranks that are not what arithmetic says, after one call. The call is begun.
Result<std::int64_t> check_call(Competitor& competitor, Team& team, const Call& call, int salt);

/// What all rows of a mode have in common.
Row row_of(const Bench& bench, const Competitor& competitor, const Call& call);

/// A collective at all sizes, every competitor in turn.
Result<std::vector<Row>> run_sweep(Bench& bench);
/// Single calls, each timed.
Result<std::vector<Row>> run_latency(Bench& bench);
/// What a job costs that does nothing.
Result<std::vector<Row>> run_idle(Bench& bench);
/// Many tensors submitted at once, against one of the same bytes.
Result<std::vector<Row>> run_steps(Bench& bench);

}  // namespace dabke::perf

// The report on a trace: how long the job's steps take, how much of them is communication, which ranks the
// others wait for, and what would make the steps faster. docs/reference/timeline-report.md defines each
// figure.
//
// Times are microseconds from the trace's beginning on. Events that overlap on a rank count once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dabke::timeline {

struct TraceReport {
  struct Step {
    std::uint64_t step = 0;
    double start_us = 0, end_us = 0;  // on the first rank that has the step
    double communication_us = 0;      // time with batches in progress; mean of the ranks
    // The time in which the application waits for tensors; nothing if the trace does not show it.
    std::optional<double> exposed_us;
    // The part of communication_us in which the application does not wait.
    std::optional<double> overlapped_us;
  };
  struct Evidence {
    static constexpr int kJob = -1;  // the whole job
    int rank = 0;
    double start_us = 0, end_us = 0;
    std::string tensor;
    std::uint64_t order = 0;
  };
  /// The time that a rank costs the others: they are ready and wait for this rank alone.
  struct Cost {
    int rank = 0;
    double last_share = 0;  // share of the compared batches in which this rank was last
    std::uint64_t batches_last = 0;
    double caused_us = 0;           // in all steps; mean of the other ranks
    double caused_per_step_us = 0;  // mean of the steps
    double caused_median_us = 0;    // median of the steps; without steps, the whole time
    std::vector<Evidence> worst;
  };
  struct Lateness {
    std::vector<int> ranks;
    std::vector<std::uint64_t> steps;
    std::vector<std::vector<double>> caused_us;  // a row for each rank, a column for each step
  };
  /// The mean of the ranks, for one step; without steps, for the whole time.
  struct Phases {
    double negotiate_us = 0;  // submitted and not ordered
    double queue_us = 0;      // behind other batches
    double pack_us = 0, collective_us = 0, unpack_us = 0;
  };
  /// The mean times of one use of a tensor. The times of a batch count for each tensor in it.
  struct Tensor : Phases {
    std::string name;
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::optional<int> last_rank;  // the rank that was most often last
  };
  /// Batches of about one size, with their median speeds.
  struct SizeClass {
    std::uint64_t bytes_from = 0, bytes_to = 0;  // bytes_to is exclusive
    std::uint64_t count = 0;
    double algorithm_bandwidth_mb_s = 0, bus_bandwidth_mb_s = 0;
    std::string backend, algorithm;
  };
  /// A tensor that failed on a rank.
  struct Failure {
    int rank = 0;
    std::string tensor, text;
    double at_us = 0;
  };
  /// A span of the application on a rank. The time in which the rank waits for tensors does not count.
  struct Span {
    std::string name;
    int rank = 0;
    double us = 0;         // of one step; without steps, the whole time
    double others_us = 0;  // the median of the other ranks that have it
    std::uint64_t count = 0;
  };
  /// A change of the ranks of an elastic job: from the first error of a survivor to the first batch or step
  /// of the next epoch.
  struct Change {
    std::uint64_t epoch = 0;  // that begins
    double start_us = 0, end_us = 0;
    std::string text;  // EpochChange::text
  };
  /// The communication of a rank in a step, compared with its computation.
  struct Overlap {
    std::optional<std::uint64_t> step;  // nothing if there are no steps: the time of the profiles
    int rank = 0;
    std::uint64_t bytes = 0;  // of the batches that begin in the step
    double bus_bandwidth_mb_s = 0;
    double communication_us = 0;
    double hidden_us = 0;   // the part of communication_us in which the rank computes
    double exposed_us = 0;  // the rank has tensors that have not ended, and does not compute
    double late_us = 0;     // the part of exposed_us in which the rank waits for late ranks
  };
  /// The mean of the uses of a tensor in the counted time. The times of a batch count for each tensor in it.
  struct ExposedTensor {
    std::string name;
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    double communication_us = 0, exposed_us = 0;
  };
  /// The comparison with profiles of the same job.
  struct Profiled {
    std::vector<int> ranks;              // those with a profile
    double start_us = 0, end_us = 0;     // the time that all profiles cover
    std::vector<Overlap> overlap;        // by step, then by rank
    std::vector<ExposedTensor> tensors;  // the most exposed first, at most ten
  };
  struct Fusion {
    struct Bar {
      std::uint64_t tensors_from = 0, tensors_to = 0;  // tensors_to is inclusive
      std::uint64_t count = 0;
    };
    std::uint64_t batches = 0, tensors = 0;
    double mean_tensors = 0;
    std::vector<Bar> histogram;
  };
  enum class Severity : std::uint8_t { high, medium, low };
  struct Finding {
    std::string id;
    Severity severity = Severity::low;
    std::string title, text, advice;
    std::vector<Evidence> evidence;
  };

  std::string source;
  std::vector<int> ranks;
  double duration_us = 0;
  double clock_error_us = 0;  // the largest error between clocks of hosts; 0 if all ranks share one
  std::string steps_are;      // where steps begin and end, in words; empty without steps
  /// All steps. If there are several, other figures leave out the first, which sets up what the others use.
  std::vector<Step> steps;
  std::size_t first_counted() const { return steps.size() > 1 ? 1 : 0; }
  // The wait for tensors in the counted time, mean of the ranks; nothing if the trace does not show it.
  std::optional<double> exposed_us;
  std::vector<Cost> cost;      // the highest cost first
  std::uint64_t compared = 0;  // batches for which the last rank is known
  Lateness lateness;
  bool names_last_rank() const {
    return std::ranges::any_of(cost, [](const Cost& one) { return one.batches_last > 0; });
  }
  /// The time that a rank waits for others, mean of the ranks: of one step, or without steps the whole time.
  double late_us = 0;
  Phases phases;
  std::vector<Tensor> tensors;  // the slowest first, at most ten
  std::vector<SizeClass> sizes;
  Fusion fusion;
  std::vector<Failure> failures;  // the earliest
  std::vector<Span> spans;        // those that exceed the same span on other ranks most
  std::vector<Change> changes;
  std::optional<Profiled> profiled;  // only if profiles were read beside a trace of Dabke
  double changes_us = 0;             // all changes together
  // Tensors, counted on each rank. `unfinished` counts only ranks whose timeline was not closed.
  std::uint64_t failed = 0, unfinished = 0;
  std::vector<std::string> notes;  // what is missing or broken in the trace
  std::vector<Finding> findings;   // the most severe first
};

/// Returns "high", "medium" or "low".
std::string_view name_of(TraceReport::Severity severity);

/// The report as JSON, as a merged trace contains it and `dabke-timeline report --json` prints it.
std::string json_of(const TraceReport& report);

}  // namespace dabke::timeline

// What a trace says of a job: how long its steps take, what of them is communication, who is waited for, and what would make
// them faster. docs/timeline.md tells how each figure is made.
//
// Times are microseconds from the trace's beginning on. What happens at once on a rank is counted once, never added up.
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
    double start_us = 0, end_us = 0;  // on the first rank that has it
    double communication_us = 0;      // batches are worked on; mean of the ranks
    std::optional<double>
        exposed_us;  // the application waits for tensors; nothing where the trace does not say
    std::optional<double> overlapped_us;  // of communication_us, what it does not wait for
  };
  struct Evidence {
    int rank = 0;
    double start_us = 0, end_us = 0;
    std::string tensor;
    std::uint64_t order = 0;
  };
  /// What a rank costs the others, who are ready and wait for it alone.
  struct Cost {
    int rank = 0;
    double last_share = 0;  // of the batches of which it is known
    std::uint64_t batches_last = 0;
    double caused_us = 0;           // mean of the other ranks, in all steps
    double caused_per_step_us = 0;  // the mean of the steps
    double caused_median_us = 0;    // the median of the steps; where there are none, all
    std::vector<Evidence> worst;
  };
  struct Lateness {
    std::vector<int> ranks;
    std::vector<std::uint64_t> steps;
    std::vector<std::vector<double>> caused_us;  // a row a rank, a column a step
  };
  /// Mean of the ranks: of a step, or of all where there are no steps.
  struct Phases {
    double negotiate_us = 0;  // submitted, not ordered
    double queue_us = 0;      // behind other batches
    double pack_us = 0, collective_us = 0, unpack_us = 0;
  };
  /// Means of one tensor at a time. The times of a batch are those of each tensor in it.
  struct Tensor : Phases {
    std::string name;
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::optional<int> last_rank;  // most often
  };
  /// Batches of about one size, and how fast they go by the median.
  struct SizeClass {
    std::uint64_t bytes_from = 0, bytes_to = 0;  // without the end
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
  /// A span of the program's own, on a rank: the time of a step in which the rank does not wait for tensors.
  struct Span {
    std::string name;
    int rank = 0;
    double us = 0;         // of a step, or of all where there are no steps
    double others_us = 0;  // the median of the other ranks that have it
    std::uint64_t count = 0;
  };
  struct Fusion {
    struct Bar {
      std::uint64_t tensors_from = 0, tensors_to = 0;  // both in it
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
  double clock_error_us = 0;  // by how much times of different hosts may be wrong; 0: all ranks share a clock
  std::string steps_are;      // how they are known; empty: there are none
  /// All of them. Other figures leave the first one out where there are more: it sets up what the rest have.
  std::vector<Step> steps;
  std::size_t first_counted() const { return steps.size() > 1 ? 1 : 0; }
  std::optional<double>
      exposed_us;          // of all that is counted, mean of the ranks; nothing where the trace does not say
  std::vector<Cost> cost;  // the dearest first
  std::uint64_t compared = 0;  // batches of which it is known who was last
  Lateness lateness;
  bool names_last_rank() const {
    return std::ranges::any_of(cost, [](const Cost& one) { return one.batches_last > 0; });
  }
  /// What ranks wait for others, mean of the ranks: of a step, or of all.
  double late_us = 0;
  Phases phases;
  std::vector<Tensor> tensors;  // the worst first, ten at most
  std::vector<SizeClass> sizes;
  Fusion fusion;
  std::vector<Failure> failures;             // the first of them in time
  std::vector<Span> spans;                   // that take longest beside the same on the other ranks
  std::uint64_t failed = 0, unfinished = 0;  // tensors of ranks; unfinished: of those that have left no end
  std::vector<std::string> notes;            // what is missing or broken
  std::vector<Finding> findings;             // the gravest first
};

/// "high", "medium", "low"
std::string_view name_of(TraceReport::Severity severity);

/// As it stands in a merged trace, and as `dabke-timeline report --json` prints it.
std::string json_of(const TraceReport& report);

}  // namespace dabke::timeline

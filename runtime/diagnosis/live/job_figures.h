// The figures of a running job for its viewers: as JSON on the way to a viewer, and as a table.
//
// A JSON object is sent once a second: format "dabke-figures", version 1, size, time_s (rank 0's monotonic
// clock), ranks[].
// Each element of ranks[] has rank, host, steps, step, step_us, bytes, batches, pending, state, state_ms,
// what, caused_s and age_s.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/rank_figures.h"
#include "runtime/base/status.h"

namespace dabke::diagnosis {

struct JobFigures {
  struct Row {
    RankFigures figures;
    std::string host;
    double caused_s = 0;  // the time that the others have waited for this rank, since init
    double age_s = 0;     // time since the rank sent these figures
  };
  int size = 0;
  double time_s = 0;
  std::vector<Row> ranks;  // sorted by rank, without ranks that have sent nothing yet
};

std::string to_json(const JobFigures& job);
/// An error describes the fault in the text.
Result<JobFigures> parse_figures(const std::string& text);

/// The key under which rank 0 stores the figures for the launcher, below the epoch's keys. is_figures_key()
/// is true for it with any prefix.
std::string figures_key();
bool is_figures_key(const std::string& key);

/// Makes lines of text, at most `columns` wide. Rates are averages over the time
/// between the last two figures.
class FiguresTable {
 public:
  /// The figures may also be of another job, or of a later start of the same job.
  void take(JobFigures job);
  /// Returns at most `rows` lines; none before the first take(). If the job has more ranks, it shows those
  /// that the others wait for most.
  std::vector<std::string> lines(std::size_t columns, std::size_t rows) const;

 private:
  const JobFigures::Row* before(Rank rank) const;

  std::optional<JobFigures> last_, before_;
};

}  // namespace dabke::diagnosis

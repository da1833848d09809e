// What the ranks of a job tell while somebody looks at it: as JSON on its way to whoever looks, and as a table.
//
// A JSON object, one a second: format "dabke-figures", version 1, size, time_s (rank 0's monotonic clock), and ranks[]:
// rank, host, steps, step, step_us, bytes, batches, pending, state, state_ms, what, caused_s, age_s.
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
    double caused_s = 0;  // for which the others have waited for it, since init
    double age_s = 0;     // since it told this
  };
  int size = 0;
  double time_s = 0;
  std::vector<Row> ranks;  // by rank; those that have told nothing yet are missing
};

std::string to_json(const JobFigures& job);
/// An error says what is wrong with the text.
Result<JobFigures> parse_figures(const std::string& text);

/// The key at which rank 0 leaves them for the launcher, under the epoch's keys, and whether this is one.
std::string figures_key();
bool is_figures_key(const std::string& key);

/// Lines of text, no wider than `columns` characters. Rates are of the time between the last two figures.
class FiguresTable {
 public:
  /// Those of another job, or of a later start of it, may follow.
  void take(JobFigures job);
  /// Empty until something was taken. At most `rows` lines, where the job has more ranks those that the others wait for most.
  std::vector<std::string> lines(std::size_t columns, std::size_t rows) const;

 private:
  const JobFigures::Row* before(Rank rank) const;

  std::optional<JobFigures> last_, before_;
};

}  // namespace dabke::diagnosis

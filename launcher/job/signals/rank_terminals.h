// The pseudo-terminals that are ranks' stdout. Each is as large as dabkerun's own, less the prefix of its
// lines.
#pragma once

#include "launcher/job/job_output.h"
#include "launcher/job/job_ranks.h"

namespace dabke::launcher {

class RankTerminals {
 public:
  /// `are_given`: ranks have terminals.
  RankTerminals(bool are_given, const JobRanks& ranks, const JobOutput& output)
      : are_given_(are_given), ranks_(ranks), output_(output) {}

  /// Sets their size to the current size of dabkerun's terminal.
  void resize() const;

 private:
  const bool are_given_;
  const JobRanks& ranks_;
  const JobOutput& output_;
};

}  // namespace dabke::launcher

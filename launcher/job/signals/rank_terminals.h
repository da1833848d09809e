// The pseudo-terminals that are ranks' stdout: each as large as dabkerun's own, less what goes before its
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

  /// Gives them the size that dabkerun's terminal has now.
  void resize() const;

 private:
  const bool are_given_;
  const JobRanks& ranks_;
  const JobOutput& output_;
};

}  // namespace dabke::launcher

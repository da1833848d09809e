// The reaction of a job to a rank that has failed.
#pragma once

#include "launcher/verdict/outcome.h"

namespace dabke::launcher {

class FailurePolicy {
 public:
  enum class Answer { end_job, go_on };
  virtual ~FailurePolicy() = default;
  /// Called once for each first failure, when it is clear which one it is.
  virtual Answer after(const RankEnd& first) const = 0;
};

/// The policy of a job of fixed size: it ends with its first rank.
class EndAllPolicy final : public FailurePolicy {
 public:
  Answer after(const RankEnd&) const override { return Answer::end_job; }
};

}  // namespace dabke::launcher

// The facts about an epoch, as dabke_epoch gives them to the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dabke/dabke.h"
#include "runtime/base/world.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"

namespace dabke {

/// Never changes, so that its arrays stay where they are.
class EpochRecord {
 public:
  /// `plan` is nothing if the job is not elastic.
  EpochRecord(const World& world, const std::optional<bootstrap::EpochPlan>& plan);
  /// For a process that has left the job after `epoch`.
  EpochRecord(std::uint64_t epoch, std::string left_why);
  EpochRecord(const EpochRecord&) = delete;
  EpochRecord& operator=(const EpochRecord&) = delete;

  /// Points into this object.
  dabke_epoch view() const;
  /// Empty unless the process has left the job.
  const std::string& left_why() const { return left_why_; }

 private:
  std::uint64_t epoch_ = 0;
  Rank rank_ = -1;
  std::vector<int> former_ranks_;
  std::optional<std::uint64_t> newest_commit_;
  std::vector<int> holders_;
  std::vector<bootstrap::LostMember> lost_;
  std::vector<dabke_lost_rank> lost_rows_;  // of lost_
  std::string left_why_;
};

}  // namespace dabke

#include "bindings/c/epoch_record.h"

#include <utility>

namespace dabke {

EpochRecord::EpochRecord(const World& world, const std::optional<bootstrap::EpochPlan>& plan)
    : epoch_(world.epoch), rank_(world.rank), former_ranks_(static_cast<std::size_t>(world.size), -1) {
  if (!plan) return;
  for (std::size_t rank = 0; rank < plan->members.size(); ++rank)
    former_ranks_[rank] = plan->members[rank].former_rank;
  newest_commit_ = plan->newest_commit();
  holders_ = plan->holders();
  lost_ = plan->lost;
  for (const bootstrap::LostMember& one : lost_)
    lost_rows_.push_back({one.rank, one.host.c_str(), one.why.c_str()});
}

EpochRecord::EpochRecord(std::uint64_t epoch, std::string left_why)
    : epoch_(epoch), left_why_(std::move(left_why)) {}

dabke_epoch EpochRecord::view() const {
  return {.struct_size = sizeof(dabke_epoch),
          .epoch = epoch_,
          .rank = rank_,
          .size = static_cast<int>(former_ranks_.size()),
          .former_ranks = former_ranks_.data(),
          .has_commit = newest_commit_ ? 1 : 0,
          .newest_commit = newest_commit_.value_or(0),
          .holders = holders_.data(),
          .holder_count = holders_.size(),
          .lost = lost_rows_.data(),
          .lost_count = lost_rows_.size(),
          .left_why = left_why_.empty() ? nullptr : left_why_.c_str()};
}

}  // namespace dabke

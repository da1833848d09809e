#include "ops/shm/shm_stores.h"

namespace dabke::ops {

void ShmStores::begin_kind(const std::vector<std::size_t>& members, std::size_t bytes, bool is_registered) {
  kind_ = store_kind(bytes, is_registered);
  if (policy_ != StorePolicy::automatic) {
    streams_ = policy_ == StorePolicy::streaming;
    kind_.reset();
    return;
  }
  streams_ =
      members.front() == domain_.own()
          ? choices_[*kind_].streams()
          : (domain_.store_notes(members.front()).streams.load(std::memory_order_relaxed) >> *kind_ & 1) != 0;
  StoreCost& best = best_[*kind_];
  if (best.streams != streams_) best = {streams_, 0};
  is_measured_ = batches_[*kind_] + 2 >= StoreChoice::kPeriod;  // the clock slows small batches
}

void ShmStores::note_cost() {
  const float ns_per_kb =
      static_cast<float>(std::chrono::nanoseconds(took_).count()) * 1024.0f / static_cast<float>(worked_);
  StoreCost& best = best_[*kind_];
  if (best.ns_per_kb == 0 || ns_per_kb < best.ns_per_kb) best.ns_per_kb = ns_per_kb;
  took_ = {};
  worked_ = 0;
}

void ShmStores::end_period(const std::vector<std::size_t>& members) {
  batches_[*kind_] = 0;
  publish(members);
  best_[*kind_].ns_per_kb = 0;
}

void ShmStores::publish(const std::vector<std::size_t>& members) {
  ShmStoreNotes& own = domain_.store_notes(domain_.own());
  if (best_[*kind_].ns_per_kb != 0) own.costs[*kind_].store(packed(best_[*kind_]), std::memory_order_relaxed);
  if (members.front() != domain_.own()) return;
  StoreChoice& choice = choices_[*kind_];
  std::optional<StoreCost> worst;
  bool do_agree = true;
  for (const std::size_t member : members) {
    const auto cost = unpacked(domain_.store_notes(member).costs[*kind_].load(std::memory_order_relaxed));
    do_agree = do_agree && cost && (!worst || worst->streams == cost->streams);
    if (do_agree && (!worst || cost->ns_per_kb > worst->ns_per_kb)) worst = cost;
  }
  if (do_agree) {
    choice.saw(*worst);
  } else {
    choice.saw_no_agreement();
  }
  const std::uint32_t bit = std::uint32_t{1} << *kind_;
  const std::uint32_t published = own.streams.load(std::memory_order_relaxed);
  own.streams.store(choice.streams() ? published | bit : published & ~bit, std::memory_order_relaxed);
}

}  // namespace dabke::ops

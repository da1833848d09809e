#include "runtime/negotiation/names.h"

#include <algorithm>

namespace dabke {

Name* Names::find(ProcessSetId set, const std::string& name) {
  scratch_.assign(set, name);
  const auto found = names_.find(scratch_);
  return found == names_.end() ? nullptr : found->second.get();
}

Name& Names::get(ProcessSetId set, const std::string& name) {
  if (Name* known = find(set, name)) return *known;
  auto fresh = std::make_unique<Name>();
  fresh->name = name;
  fresh->process_set = set;
  return *names_.emplace(scratch_, std::move(fresh)).first->second;
}

Name* Names::by_slot(Slot slot) const {
  if (place(slot) >= slots_.size()) return nullptr;
  Name* name = slots_[place(slot)];
  return name != nullptr && name->slot == slot ? name : nullptr;
}

void Names::bind(Name& name, Slot slot, RequestRef agreed) {
  if (name.slot != kNoSlot && name.slot != slot) slots_[place(name.slot)] = nullptr;
  if (place(slot) >= slots_.size()) slots_.resize(place(slot) + 1);
  slots_[place(slot)] = &name;
  name.slot = slot;
  name.agreed = std::move(agreed);
}

void Names::unbind(Name& name, std::uint64_t until) {
  evicted_.push_back({name.slot, until, name.process_set, name.agreed});
  slots_[place(name.slot)] = nullptr;
  name.slot = kNoSlot;
  name.agreed.reset();
}

const Names::Evicted* Names::evicted(Slot slot) const {
  const auto found = std::ranges::find(evicted_, slot, &Evicted::slot);
  return found == evicted_.end() ? nullptr : &*found;
}

void Names::forget_evicted(std::uint64_t seen_by_all) {
  std::erase_if(evicted_, [&](const Evicted& evicted) { return evicted.until <= seen_by_all; });
}

void Names::tidy(Name& name) {
  if (name.slot != kNoSlot || !name.waiting.empty() || !name.collection.empty() || name.in_ready_list) return;
  scratch_.assign(name.process_set, name.name);
  names_.erase(scratch_);
}

void Names::remove_set(ProcessSetId set) {
  for (auto entry = names_.begin(); entry != names_.end();) {
    if (entry->first.set != set) {
      ++entry;
      continue;
    }
    if (entry->second->slot != kNoSlot) slots_[place(entry->second->slot)] = nullptr;
    entry = names_.erase(entry);
  }
}

void Names::clear() {
  names_.clear();
  slots_.clear();
  evicted_.clear();
}

}  // namespace dabke

#include "runtime/negotiation/names.h"

#include <algorithm>
#include <cstdint>

namespace dabke {
namespace {

constexpr std::size_t kFewestCells = 64;

}  // namespace

void ReporterSet::insert(int reporter) {
  if (reporter < 64) {
    low_ |= std::uint64_t{1} << reporter;
    return;
  }
  const auto at = static_cast<std::size_t>(reporter - 64);
  if (!high_) high_ = std::make_unique<std::vector<bool>>();
  if (at >= high_->size()) high_->resize(at + 1);
  (*high_)[at] = true;
}

bool ReporterSet::high(int reporter) const {
  const auto at = static_cast<std::size_t>(reporter - 64);
  return high_ && at < high_->size() && (*high_)[at];
}

void ReporterSet::clear() {
  low_ = 0;
  high_.reset();
}

void Submissions::push(Submitted submitted) {
  if (empty()) {
    front_ = std::move(submitted);
    return;
  }
  if (!later_) later_ = std::make_unique<std::deque<Submitted>>();
  later_->push_back(std::move(submitted));
}

Submitted Submissions::pop(TimePoint now) {
  Submitted first = std::exchange(front_, {});
  if (!later_) return first;
  front_ = std::move(later_->front());
  front_.since = now;
  later_->pop_front();
  if (later_->empty()) later_.reset();
  return first;
}

std::size_t Names::hash_of(ProcessSetId set, const std::string& name) {
  return std::hash<std::string>()(name) ^ (static_cast<std::size_t>(set) * 0x9e3779b97f4a7c15U);
}

std::size_t Names::cell_of(std::size_t hash, ProcessSetId set, const std::string& name) const {
  const std::size_t mask = cells_.size() - 1;
  std::size_t at = hash & mask;
  for (; cells_[at].name; at = (at + 1) & mask) {
    const Cell& cell = cells_[at];
    if (cell.hash == hash && cell.name->process_set == set && cell.name->name == name) break;
  }
  return at;
}

void Names::grow() {
  std::vector<Cell> old(std::max(kFewestCells, 2 * cells_.size()));
  old.swap(cells_);
  for (Cell& cell : old) {
    if (!cell.name) continue;
    const std::size_t at = cell_of(cell.hash, cell.name->process_set, cell.name->name);
    cells_[at] = std::move(cell);
  }
}

/// What was pushed away from its place by what is gone moves up.
void Names::erase(std::size_t hole) {
  const std::size_t mask = cells_.size() - 1;
  cells_[hole].name.reset();
  --count_;
  for (std::size_t at = (hole + 1) & mask; cells_[at].name; at = (at + 1) & mask) {
    const std::size_t wanted = cells_[at].hash & mask;
    if (((at - wanted) & mask) < ((at - hole) & mask)) continue;  // its place is behind the hole
    cells_[hole] = std::move(cells_[at]);
    hole = at;
  }
}

Name* Names::find(ProcessSetId set, const std::string& name) const {
  return cells_.empty() ? nullptr : cells_[cell_of(hash_of(set, name), set, name)].name.get();
}

void Names::prefetch_after(std::size_t place) const {
  constexpr std::size_t kAhead = 2;
  if (place + kAhead >= slots_.size()) return;
  // The address is a number, because the place may be free: the processor does not mind, the language does.
  const auto first = reinterpret_cast<std::uintptr_t>(slots_[place + kAhead]);
  for (std::size_t at = 0; at < sizeof(Name); at += alignof(Name))
    __builtin_prefetch(reinterpret_cast<const void*>(first + at));
}

Name& Names::get(ProcessSetId set, const std::string& name) {
  if (next_place_ < slots_.size()) {
    Name* const next = slots_[next_place_];
    prefetch_after(next_place_);
    if (next != nullptr && next->process_set == set && next->name == name) {
      ++next_place_;
      return *next;
    }
  }
  const std::size_t hash = hash_of(set, name);
  if (3 * (count_ + 1) > 2 * cells_.size()) grow();
  Cell& cell = cells_[cell_of(hash, set, name)];
  if (cell.name) {
    if (cell.name->slot != kNoSlot) next_place_ = place_of(cell.name->slot) + 1;
    return *cell.name;
  }
  ++count_;
  cell.hash = hash;
  cell.name = std::make_unique<Name>();
  cell.name->name = name;
  cell.name->process_set = set;
  return *cell.name;
}

Name* Names::by_slot(Slot slot) const {
  if (place_of(slot) >= slots_.size()) return nullptr;
  Name* name = slots_[place_of(slot)];
  prefetch_after(place_of(slot));
  return name != nullptr && name->slot == slot ? name : nullptr;
}

void Names::bind(Name& name, Slot slot, RequestRef agreed) {
  if (name.slot != kNoSlot && name.slot != slot) slots_[place_of(name.slot)] = nullptr;
  if (place_of(slot) >= slots_.size()) slots_.resize(place_of(slot) + 1);
  slots_[place_of(slot)] = &name;
  name.slot = slot;
  name.agreed = std::move(agreed);
}

void Names::unbind(Name& name) {
  slots_[place_of(name.slot)] = nullptr;
  name.slot = kNoSlot;
  name.agreed.reset();
}

void Names::evict(Name& name, std::uint64_t until) {
  evicted_.emplace(name.slot, name.agreed);
  evictions_[name.process_set].push_back({until, name.slot});
  unbind(name);
}

RequestRef Names::evicted(Slot slot) const {
  const auto found = evicted_.find(slot);
  return found == evicted_.end() ? nullptr : found->second;
}

void Names::tidy(Name& name) {
  if (name.slot != kNoSlot || !name.waiting.empty() || !name.collection.empty() || name.in_ready_list) return;
  if (cells_.empty()) return;  // cleared
  const std::size_t cell = cell_of(hash_of(name.process_set, name.name), name.process_set, name.name);
  if (cells_[cell].name.get() == &name) erase(cell);
}

void Names::remove_set(ProcessSetId set) {
  std::vector<Name*> gone;
  for_each([&](Name& name) {
    if (name.process_set == set) gone.push_back(&name);
  });
  for (const Name* name : gone) {
    if (name->slot != kNoSlot) slots_[place_of(name->slot)] = nullptr;
    erase(cell_of(hash_of(set, name->name), set, name->name));
  }
  if (const auto gone_before = evictions_.find(set); gone_before != evictions_.end()) {
    for (const Eviction& eviction : gone_before->second) evicted_.erase(eviction.slot);
    evictions_.erase(gone_before);
  }
}

void Names::clear() {
  for (Cell& cell : cells_) {
    if (!cell.name) continue;
    cell.name->slot = kNoSlot;
    cleared_.push_back(std::move(cell.name));
  }
  cells_.clear();
  count_ = 0;
  slots_.clear();
  evicted_.clear();
  evictions_.clear();
}

}  // namespace dabke

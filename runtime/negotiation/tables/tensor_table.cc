#include "runtime/negotiation/tables/tensor_table.h"

#include <algorithm>

namespace dabke::negotiation {
namespace {

constexpr std::size_t kFewestCells = 64;

}  // namespace

std::size_t TensorTable::hash_of(ProcessSetId set, const std::string& key) {
  return std::hash<std::string>()(key) ^ (static_cast<std::size_t>(set) * 0x9e3779b97f4a7c15U);
}

std::size_t TensorTable::cell_of(std::size_t hash, ProcessSetId set, const std::string& key) const {
  const std::size_t mask = cells_.size() - 1;
  std::size_t at = hash & mask;
  for (; cells_[at].entry; at = (at + 1) & mask) {
    const Cell& cell = cells_[at];
    if (cell.hash == hash && cell.entry->process_set == set && cell.entry->name == key) break;
  }
  return at;
}

void TensorTable::grow() {
  std::vector<Cell> old(std::max(kFewestCells, 2 * cells_.size()));
  old.swap(cells_);
  for (Cell& cell : old) {
    if (!cell.entry) continue;
    const std::size_t at = cell_of(cell.hash, cell.entry->process_set, cell.entry->name);
    cells_[at] = std::move(cell);
  }
}

/// Moves up the entries that the removed entry had pushed away from their cells.
void TensorTable::erase(std::size_t hole) {
  const std::size_t mask = cells_.size() - 1;
  cells_[hole].entry.reset();
  --count_;
  for (std::size_t at = (hole + 1) & mask; cells_[at].entry; at = (at + 1) & mask) {
    const std::size_t wanted = cells_[at].hash & mask;
    if (((at - wanted) & mask) < ((at - hole) & mask)) continue;  // its own cell is behind the hole
    cells_[hole] = std::move(cells_[at]);
    hole = at;
  }
}

TensorEntry* TensorTable::find(ProcessSetId set, const std::string& key) const {
  return cells_.empty() ? nullptr : cells_[cell_of(hash_of(set, key), set, key)].entry.get();
}

TensorEntry& TensorTable::get(ProcessSetId set, const std::string& key) {
  TensorEntry* const next = cache_.at(next_);
  if (next != nullptr && next->process_set == set && next->name == key) {
    ++next_;
    return *next;
  }
  const std::size_t hash = hash_of(set, key);
  if (3 * (count_ + 1) > 2 * cells_.size()) grow();
  Cell& cell = cells_[cell_of(hash, set, key)];
  if (cell.entry) {
    if (cell.entry->slot != wire::kNoSlot) next_ = wire::index_of(cell.entry->slot) + 1;
    return *cell.entry;
  }
  ++count_;
  cell.hash = hash;
  cell.entry = std::make_unique<TensorEntry>();
  cell.entry->name = key;
  cell.entry->process_set = set;
  return *cell.entry;
}

void TensorTable::tidy(TensorEntry& entry) {
  if (entry.slot != wire::kNoSlot || !entry.waiting.empty() || !entry.collection.empty() ||
      entry.in_ready_list)
    return;
  if (cells_.empty()) return;  // cleared
  const std::size_t cell = cell_of(hash_of(entry.process_set, entry.name), entry.process_set, entry.name);
  if (cells_[cell].entry.get() == &entry) erase(cell);
}

void TensorTable::remove_set(ProcessSetId set) {
  std::vector<TensorEntry*> gone;
  for_each([&](TensorEntry& entry) {
    if (entry.process_set == set) gone.push_back(&entry);
  });
  for (const TensorEntry* entry : gone) erase(cell_of(hash_of(set, entry->name), set, entry->name));
}

void TensorTable::clear() {
  for (Cell& cell : cells_) {
    if (!cell.entry) continue;
    cell.entry->slot = wire::kNoSlot;
    cleared_.push_back(std::move(cell.entry));
  }
  cells_.clear();
  count_ = 0;
}

}  // namespace dabke::negotiation

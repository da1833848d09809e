// One rank's tensors, groups and calls without a tensor, by process set and key (name_key.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/negotiation/tables/response_cache.h"
#include "runtime/negotiation/tables/tensor_entry.h"

namespace dabke::negotiation {

class TensorTable {
 public:
  /// `cache` has the entry that is likely to be needed next.
  explicit TensorTable(const ResponseCache& cache) : cache_(cache) {}

  /// Returns null if there is none.
  TensorEntry* find(ProcessSetId set, const std::string& key) const;
  /// Finds the entry, or makes it. Steps repeat, so the keys of one step mostly come in the order in which
  /// they first came, which is that of their slots. As long as this is so, nothing is searched.
  TensorEntry& get(ProcessSetId set, const std::string& key);

  /// Drops the entry if it holds nothing.
  void tidy(TensorEntry& entry);
  void remove_set(ProcessSetId set);
  void clear();

  /// `each` must neither add nor drop entries.
  template <class Each>
  void for_each(Each each) const {
    for (const Cell& cell : cells_) {
      if (cell.entry) each(*cell.entry);
    }
  }

 private:
  // A hash table with linear probing: a lookup reads one cell, and the entry itself.
  struct Cell {
    std::size_t hash = 0;
    std::unique_ptr<TensorEntry> entry;
  };
  static std::size_t hash_of(ProcessSetId set, const std::string& key);
  /// The cell of the entry, or the free cell where it would be.
  std::size_t cell_of(std::size_t hash, ProcessSetId set, const std::string& key) const;
  void grow();
  void erase(std::size_t cell);

  const ResponseCache& cache_;
  std::vector<Cell> cells_;  // a power of two of them; at least a third is free
  /// When the job fails, a caller may use an entry a moment longer, so cleared entries live on.
  std::vector<std::unique_ptr<TensorEntry>> cleared_;
  std::size_t count_ = 0;
  wire::SlotIndex next_ = 0;  // of the entry that get() is likely to need next
};

}  // namespace dabke::negotiation

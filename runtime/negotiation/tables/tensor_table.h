// The tensors, groups and calls without a tensor that one rank knows of, by process set and key (name_key.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/negotiation/tables/response_cache.h"
#include "runtime/negotiation/tables/tensor_entry.h"

namespace dabke::negotiation {

class TensorTable {
 public:
  /// `cache` knows which entry is likely to be asked for next.
  explicit TensorTable(const ResponseCache& cache) : cache_(cache) {}

  /// Null when there is none.
  TensorEntry* find(ProcessSetId set, const std::string& key) const;
  /// Finds it, or makes it. Steps repeat, so the keys of one mostly come in the order in which they came
  /// first, which is that of their slots: where that is so nothing is searched for.
  TensorEntry& get(ProcessSetId set, const std::string& key);

  /// Drops it if nothing is known of it.
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
  // A hash table with linear probing: of a tensor that is looked up one cell is read and the entry itself.
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
  /// Whoever has an entry in hand when the job fails goes on with it for a moment, so cleared ones live on.
  std::vector<std::unique_ptr<TensorEntry>> cleared_;
  std::size_t count_ = 0;
  wire::SlotIndex next_ = 0;  // whose entry get() is likely to be asked for next
};

}  // namespace dabke::negotiation

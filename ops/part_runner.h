// For backends that are put together from others: runs a part on the first of them that can, and waits.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "ops/collective.h"

namespace dabke {

class PartRunner {
 public:
  /// In order of preference, owned by others; null ones are left out.
  explicit PartRunner(std::vector<Collective*> backends);

  /// Prepares the backend for the part's process set when that is its first; all ranks of the set come to the
  /// same.
  Status run(const Batch& part);
  void release(ProcessSetId set);
  void abort(const Status& cause);

 private:
  std::vector<Collective*> backends_;
  std::set<std::pair<Collective*, ProcessSetId>> prepared_;
};

}  // namespace dabke

// Ranks that run different batches at one time. The run must fail on all of them.
#pragma once

#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include "tests/ops/rank_threads.h"

namespace dabke::test {

struct Brought {
  std::uint64_t order = 5;
  std::size_t tensors = 1;
  std::size_t elements = 3;
};
struct Difference {
  Brought of_last;    // the last rank
  Brought of_others;  // all others
};

/// The differences: in tensors, in bytes, and in orders; with little data, with much, and with both.
inline std::vector<Difference> differences() {
  return {{{5, 2, 3}, {5, 1, 3}},         {{5, 1, 4}, {5, 1, 3}},         {{6, 1, 3}, {5, 1, 3}},
          {{5, 2, 30000}, {5, 1, 30000}}, {{5, 1, 30001}, {5, 1, 30000}}, {{6, 1, 30000}, {5, 1, 30000}},
          {{5, 1, 3}, {5, 1, 30000}},     {{5, 2, 3}, {5, 1, 300000}},    {{6, 1, 300000}, {5, 1, 3}}};
}

/// Sums of ones. A rank that fails aborts the runs of the others, as the job does.
class DifferentBatches {
 public:
  DifferentBatches(int ranks, Difference difference) : difference_(difference), start_(ranks), end_(ranks) {}

  /// Called by every rank, on a thread of its own.
  Status run(RankThread& self) {
    {
      const std::lock_guard lock(mutex_);
      ranks_.push_back(&self);
    }
    Status status = sum(self, {1, 1, 1});  // connects all ranks
    start_.arrive_and_wait();
    const bool is_last = self.world.rank + 1 == self.world.size;
    if (status.is_ok()) status = sum(self, is_last ? difference_.of_last : difference_.of_others);
    if (!status.is_ok()) {
      const std::lock_guard lock(mutex_);
      for (RankThread* const rank : ranks_) rank->abort(status);
    }
    end_.arrive_and_wait();
    return status;
  }

  /// Returns what is wrong with the results: every rank must fail, and one error must name both batches.
  std::string wrong_with(const std::vector<Status>& statuses) const {
    bool is_told = false;
    for (const Status& status : statuses) {
      if (status.is_ok()) return "a run of different batches ended well";
      const std::string& text = status.message();
      is_told = is_told || (text.find("the ranks are out of step") != std::string::npos &&
                            text.find(text_of(difference_.of_last)) != std::string::npos &&
                            text.find(text_of(difference_.of_others)) != std::string::npos);
    }
    return is_told ? "" : "nobody says what the ranks brought: " + statuses.front().message();
  }

 private:
  static std::string text_of(const Brought& brought) {
    return std::to_string(brought.tensors) + " tensor" + (brought.tensors == 1 ? "" : "s") + " of " +
           std::to_string(4 * brought.tensors * brought.elements) + " bytes in order " +
           std::to_string(brought.order);
  }

  static Status sum(RankThread& self, const Brought& brought) {
    std::vector<std::vector<float>> tensors(brought.tensors, std::vector<float>(brought.elements, 1));
    Batch batch;
    batch.order = brought.order;
    for (auto& tensor : tensors)
      batch.entries.push_back(
          {tensor.data(), tensor.data(), static_cast<std::int64_t>(tensor.size()), {}, {}});
    return self.run(batch);
  }

  const Difference difference_;
  std::mutex mutex_;
  std::vector<RankThread*> ranks_;
  std::latch start_, end_;
};

}  // namespace dabke::test

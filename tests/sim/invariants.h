// The invariants of a negotiation, checked at every order that a rank executes.
//   1. An order means the same on every rank that executes it, and agrees with the rank's own request. It
//      carries the same number of announced changes, never fewer than the order before it.
//   2. The numbers of a rank's orders only go up.
//   3. A rank executes only orders of its own process sets, and a set has the same ranks everywhere.
//   4. Every member of a set runs its tensors in the same batches, in the order of their first tensors.
//   5. A token completes once (pending_tokens.h).
// A broken invariant is thrown as a Violation.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/negotiation/state/actions.h"
#include "runtime/negotiation/tables/process_sets.h"
#include "tests/sim/pending_tokens.h"

namespace dabke::test {

class Invariants {
 public:
  /// `first` are the initial sets.
  Invariants(int ranks, const negotiation::ProcessSets& first);

  PendingTokens& tokens() { return tokens_; }
  const PendingTokens& tokens() const { return tokens_; }
  /// The number of the last order that this rank has executed; 0 before the first.
  std::uint64_t last_number(Rank rank) const { return ranks_[at(rank)].last_number; }

  void change_set(Rank rank, const negotiation::ProcessSetAction& action);
  void execute(Rank rank, const negotiation::ExecuteAction& action);

 private:
  /// A tensor of a batch: the number of its order, and its index in the request.
  using TensorOfOrder = std::pair<std::uint64_t, std::uint32_t>;
  using BatchOfTensors = std::vector<TensorOfOrder>;
  struct OfRank {
    std::uint64_t last_number = 0;
    TensorOfOrder last_batch;
    std::uint64_t changes = 0;         // of the last order of the world
    std::map<ProcessSetId, int> sets;  // the rank's sets, with their sizes
  };
  struct Agreed {
    RequestRef request;
    int contributors;
    std::uint64_t changes;
    int seen = 0;
  };
  struct RunBatch {
    BatchOfTensors tensors;
    int seen = 0;
  };
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  int members_of(Rank rank, const Request& request) const;
  void check_order(Rank rank, const negotiation::OrderedRequest& ordered);
  void check_changes(Rank rank, const negotiation::OrderedRequest& ordered, std::uint64_t agreed);
  void check_batches(Rank rank, const negotiation::ExecuteAction& action);
  void check_batch(Rank rank, const BatchOfTensors& batch, int members);

  PendingTokens tokens_;
  std::vector<OfRank> ranks_;
  std::map<ProcessSetId, std::vector<Rank>> sets_;    // all sets ever; ids are used once
  std::unordered_map<std::uint64_t, Agreed> agreed_;  // by number, until all members have executed it
  std::map<TensorOfOrder, RunBatch> batches_;         // by the first tensor, until all members have run it
};

}  // namespace dabke::test

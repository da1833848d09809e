// Gathers, on one rank, who of its subtree has a name ready: the rank itself and its children in the tree.
//
// What is complete here goes up as one report; on the root it is ready to be ordered. Equal signatures merge;
// unequal ones are kept with their ranks. A reporter all of whose ranks have joined the set is not waited
// for. Some requests wait for the ranks that they list and for no other of their set, joined or not
// (is_among_members).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/call/device_types.h"
#include "runtime/negotiation/tables/tensor_table.h"
#include "runtime/negotiation/tables/topology.h"

namespace dabke::negotiation {

class Collector {
 public:
  Collector(std::shared_ptr<const Topology> topology, Rank self);

  /// 0 for this rank, 1 + i for the subtree of its i-th child, -1 for all else.
  int reporter_of(Rank rank) const;
  int reporters() const { return 1 + static_cast<int>(children_.size()); }
  Rank rank_of(int reporter) const {
    return reporter == 0 ? self_ : children_[static_cast<std::size_t>(reporter) - 1];
  }

  void add_set(ProcessSetId id, const std::vector<Rank>& ranks);
  void remove_set(ProcessSetId id) {
    if (id != kWorldSet) sets_.erase(id);
  }
  /// A rank of the set has shut down: nothing can become ready there any more.
  void end_set(ProcessSetId id);
  bool is_open(ProcessSetId id) const;
  /// Whether any rank that reports through this one is in the set.
  bool concerns(ProcessSetId id, int reporter) const;

  /// How many ranks of the set report through it.
  int ranks_behind(ProcessSetId id, int reporter) const;

  enum class Took { no, yes, twice };
  /// A report by slot: with the signature that the name has agreed on.
  Took report(TensorEntry& entry, int reporter, TimePoint now);
  Took report(TensorEntry& entry, int reporter, const wire::Report& report, TimePoint now);
  /// The name's slot ends: what came by slot becomes reports in full.
  void spell_out(TensorEntry& entry);
  bool is_complete(const TensorEntry& entry) const;

  struct Taken {
    bool by_slot = false;  // everybody, with the agreed signature
    wire::Report report;   // else
    /// One that has joined, is to take part without data of its own, and has no device of the request's type.
    std::optional<Rank> not_served;
  };
  /// Takes a complete name; forgets what was gathered.
  Taken take(TensorEntry& entry);

  /// All ranks behind the reporter have joined, but are still to report these names. Names may have become
  /// complete by it. What it said before is forgotten. Whether it had not joined before.
  bool join(ProcessSetId id, int reporter, const std::vector<std::string>& unfinished);
  bool all_joined(ProcessSetId id) const;
  /// These ranks have joined.
  void note_not_served(ProcessSetId id, const std::vector<wire::NotServed>& ranks);
  /// Of each device type the lowest such rank.
  std::vector<wire::NotServed> not_served(ProcessSetId id) const;
  /// What ranks that have joined are still to report.
  std::vector<std::string> unfinished(ProcessSetId id) const;
  /// The join has completed.
  void forget_joins(ProcessSetId id);

  bool has_joined(ProcessSetId id, int reporter) const;
  /// Whom the name still waits for.
  std::vector<int> missing(const TensorEntry& entry) const;

 private:
  struct Set {
    std::vector<int> ranks_behind;  // by reporter: how many ranks of the set
    int expected = 0;               // reporters with any
    std::vector<bool> joined;       // by reporter
    int joined_count = 0;
    std::map<std::string, std::set<int>, std::less<>> unfinished;  // by name: reporters that have joined
    ByDeviceType<std::optional<Rank>> not_served;                  // ranks that have joined
    bool open = true;
    std::shared_ptr<const std::vector<Rank>> ranks;  // null: everybody
  };
  const Set* find(ProcessSetId id) const;
  Set set_of(const std::vector<Rank>& ranks) const;
  /// What the request waits for, where that is not its set.
  std::optional<Set> own_set_of(const Request& request) const;
  std::optional<Set> own_set_of(const TensorEntry& entry) const;
  /// Whether a name can be complete without a report of this reporter's.
  static bool does_without(const Set& set, const TensorEntry& entry, int reporter);
  Took note(TensorEntry& entry, int reporter, std::int32_t contributors, TimePoint now);
  void add_candidate(TensorEntry& entry, int reporter, const RequestRef& request,
                     const std::vector<Rank>& ranks);
  std::vector<Rank> list_ranks_behind(const Set& set, int reporter) const;
  std::vector<Rank> joined_beside(const Set& set, const Collection& collection) const;
  std::optional<Rank> not_served_in(const Set& set, const wire::Report& report) const;
  wire::Report full_report(const Set& set, const TensorEntry& entry) const;

  std::shared_ptr<const Topology> topology_;
  Rank self_;
  std::vector<Rank> children_;
  std::map<ProcessSetId, Set> sets_;
  Set& world_ = sets_[kWorldSet];  // nearly all is of this one, and it is never removed
};

}  // namespace dabke::negotiation

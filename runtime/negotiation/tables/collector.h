// Gathers, on one rank, which ranks of its subtree have a name ready: the rank itself and its children in the
// tree.
//
// A name that is complete here goes up as one report; on the root it is ready to be ordered. Equal signatures
// merge; different ones are kept with their ranks. A reporter is not awaited if all its ranks have joined the
// set. Some requests wait only for the ranks that they list, joined or not (is_among_members).
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

  /// Returns 0 for this rank, 1 + i for the subtree of its i-th child, and -1 for all other ranks.
  int reporter_of(Rank rank) const;
  int reporters() const { return 1 + static_cast<int>(children_.size()); }
  Rank rank_of(int reporter) const {
    return reporter == 0 ? self_ : children_[static_cast<std::size_t>(reporter) - 1];
  }

  void add_set(ProcessSetId id, const std::vector<Rank>& ranks);
  void remove_set(ProcessSetId id) {
    if (id != kWorldSet) sets_.erase(id);
  }
  /// Called when a rank of the set has shut down: nothing can become ready in the set any more.
  void end_set(ProcessSetId id);
  bool is_open(ProcessSetId id) const;
  /// True if any rank that reports through `reporter` is in the set.
  bool concerns(ProcessSetId id, int reporter) const;

  /// The number of ranks of the set that report through `reporter`.
  int ranks_behind(ProcessSetId id, int reporter) const;

  enum class Took { no, yes, twice };
  /// Takes a report by slot, with the signature on which the name has agreed.
  Took report(TensorEntry& entry, int reporter, TimePoint now);
  Took report(TensorEntry& entry, int reporter, const wire::Report& report, TimePoint now);
  /// Called when the name's slot ends: reports that came by slot become reports in full.
  void spell_out(TensorEntry& entry);
  bool is_complete(const TensorEntry& entry) const;

  struct Taken {
    bool by_slot = false;  // all ranks, with the agreed signature
    wire::Report report;   // otherwise
    /// A rank that has joined, is to take part without data of its own, and has no device of the request's
    /// type.
    std::optional<Rank> not_served;
  };
  /// Takes a complete name, and drops what was gathered.
  Taken take(TensorEntry& entry);

  /// All ranks behind the reporter have joined, but are still to report the names in `unfinished`. This
  /// replaces what the reporter sent before, and may make names complete. Returns true if the reporter had
  /// not joined before.
  bool join(ProcessSetId id, int reporter, const std::vector<std::string>& unfinished);
  bool all_joined(ProcessSetId id) const;
  /// Notes ranks that have joined and have no device of a type.
  void note_not_served(ProcessSetId id, const std::vector<wire::NotServed>& ranks);
  /// Returns the lowest such rank for each device type.
  std::vector<wire::NotServed> not_served(ProcessSetId id) const;
  /// Returns the names that joined ranks are still to report.
  std::vector<std::string> unfinished(ProcessSetId id) const;
  /// Called when the join has completed.
  void forget_joins(ProcessSetId id);

  bool has_joined(ProcessSetId id, int reporter) const;
  /// Returns the reporters for which the name still waits.
  std::vector<int> missing(const TensorEntry& entry) const;

 private:
  struct Set {
    std::vector<int> ranks_behind;  // by reporter: its ranks of the set
    int expected = 0;               // reporters with such ranks
    std::vector<bool> joined;       // by reporter
    int joined_count = 0;
    std::map<std::string, std::set<int>, std::less<>> unfinished;  // by name: reporters that have joined
    ByDeviceType<std::optional<Rank>> not_served;                  // ranks that have joined
    bool open = true;
    std::shared_ptr<const std::vector<Rank>> ranks;  // null: all ranks
  };
  const Set* find(ProcessSetId id) const;
  Set set_of(const std::vector<Rank>& ranks) const;
  /// Returns the ranks for which the request waits, if they are not those of its set.
  std::optional<Set> own_set_of(const Request& request) const;
  std::optional<Set> own_set_of(const TensorEntry& entry) const;
  /// True if a name can be complete without a report of this reporter.
  static bool does_without(const Set& set, const TensorEntry& entry, int reporter);
  Took note(TensorEntry& entry, int reporter, std::int32_t contributors, TimePoint now);
  /// True for a message within a process set that has been removed: its two ranks have failed it, or will.
  bool is_of_removed_set(const TensorEntry& entry) const;
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
  Set& world_ = sets_[kWorldSet];  // nearly all requests are of this set, and it is never removed
};

}  // namespace dabke::negotiation

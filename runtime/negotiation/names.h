// What one rank knows of each name: its slot, who waits for it here, and who below has reported it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/negotiation/wire.h"

namespace dabke {

/// The runtime's operation; 0 is never one.
using Token = std::uint64_t;

/// Readiness of one name on its way through one rank. A reporter is 0 for the rank itself, 1 + i for its i-th
/// child.
struct Collection {
  struct Part {  // of a variant
    int reporter;
    std::vector<Rank> ranks;  // empty: all that report through it
  };
  struct Candidate {
    RequestRef request;
    std::vector<Part> parts;
  };

  bool empty() const { return count == 0; }

  std::vector<bool> reported;         // by reporter
  int count = 0;                      // of them
  std::int32_t contributors = 0;      // ranks
  bool root_absent = false;           // broadcast: its root rank has joined
  std::vector<Candidate> candidates;  // none: all reports came by slot
  TimePoint since{};                  // the first report
  TimePoint warned{};                 // the last stall report, or `since`
  bool suspected = false;             // looked at for a process-set mismatch
  std::uint64_t recording = 0;        // the number of the timeline that has its beginning
};

struct Submitted {
  Token token = 0;
  RequestRef request;
};

struct Name {
  std::string name;
  ProcessSetId process_set;
  Slot slot = kNoSlot;
  RequestRef agreed;              // what the slot stands for
  std::deque<Submitted> waiting;  // here; the front one is announced, unless `held`
  bool held = false;              // ready here, kept back for its learned batch
  std::uint32_t batch = 0;        // learned; 0: none
  bool awaited = false;           // until its next order: a thread somewhere waits, so nobody keeps it back
  std::uint64_t ordered_at = 0;   // the number of its last order
  bool in_ready_list = false;     // root only: decided, not numbered yet
  Collection collection;
};

class Names {
 public:
  /// Null when there is none.
  Name* find(ProcessSetId set, const std::string& name);
  Name& get(ProcessSetId set, const std::string& name);
  /// Null when the slot means nothing any more.
  Name* by_slot(Slot slot) const;

  /// From now on `slot` stands for this signature of this name.
  void bind(Name& name, Slot slot, RequestRef agreed);
  /// `until`: the number of the order that did it. Reports that were under way then are still understood.
  void unbind(Name& name, std::uint64_t until);
  struct Evicted {
    Slot slot;
    std::uint64_t until;
    ProcessSetId process_set;
    RequestRef agreed;
  };
  const Evicted* evicted(Slot slot) const;
  bool any_evicted() const { return !evicted_.empty(); }
  /// Every child has seen this order.
  void forget_evicted(std::uint64_t seen_by_all);

  /// Drops it if nothing is known of it.
  void tidy(Name& name);
  void remove_set(ProcessSetId set);
  void clear();

  template <class Each>
  void for_each(Each each) const {
    for (const auto& [key, name] : names_) each(*name);
  }

 private:
  /// Keeps its hash: looking one up reads the names of its neighbours otherwise.
  struct Key {
    ProcessSetId set = kWorldSet;
    std::string name;
    std::size_t hash = 0;
    void assign(ProcessSetId to_set, const std::string& to_name) {
      set = to_set;
      name = to_name;  // keeps its memory
      hash = std::hash<std::string>()(name) ^ (static_cast<std::size_t>(set) * 0x9e3779b97f4a7c15U);
    }
    friend bool operator==(const Key& a, const Key& b) {
      return a.hash == b.hash && a.set == b.set && a.name == b.name;
    }
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return key.hash; }
  };
  static std::size_t place(Slot slot) { return slot & 0xffffffffU; }

  std::unordered_map<Key, std::unique_ptr<Name>, Hash> names_;
  std::vector<Name*> slots_;  // by place
  std::vector<Evicted> evicted_;
  Key scratch_;
};

}  // namespace dabke

// What one rank knows of each name: its slot, who waits for it here, and who below has reported it.
#pragma once

#include <cstdint>
#include <deque>
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

/// Two ranks may well submit one name to two overlapping sets in opposite order and wait for neither; only
/// when nothing has resolved it for this long is it looked at as the mistake of passing different process
/// sets; then again whenever the time has doubled.
inline constexpr Duration kSuspectAfter = std::chrono::seconds(1);

/// A set of small numbers; of those below 64 without memory of its own.
class ReporterSet {
 public:
  bool contains(int reporter) const { return reporter < 64 ? (low_ >> reporter & 1) != 0 : high(reporter); }
  void insert(int reporter);
  void clear();

 private:
  bool high(int reporter) const;
  std::uint64_t low_ = 0;
  std::unique_ptr<std::vector<bool>> high_;  // those from 64 on
};

/// Readiness of one name on its way through one rank. A reporter is 0 for the rank itself, 1 + i for its i-th
/// child.
struct Collection {
  struct Part {  // one reporter's share of a variant
    int reporter;
    std::vector<Rank> ranks;  // empty: all that report through it
  };
  struct Candidate {
    RequestRef request;
    std::vector<Part> parts;
  };

  bool empty() const { return count == 0; }

  ReporterSet reported;
  int count = 0;                      // reporters
  std::int32_t contributors = 0;      // ranks
  bool root_absent = false;           // broadcast: its root rank has joined
  std::vector<Candidate> candidates;  // none: all reports came by slot
  TimePoint since{};                  // the first report
  TimePoint warned{};                 // the last stall report, or `since`
  TimePoint suspect_at{};             // when to look for a process-set mismatch
  std::uint64_t recording = 0;        // the number of the timeline that has its beginning
};

struct Submitted {
  Token token = 0;
  RequestRef request;
  TimePoint since{};  // it was submitted, or became the first of its name
};

/// What was submitted here under one name and is not ordered yet, in order. Nearly always one at most, which
/// lies here itself.
class Submissions {
 public:
  bool empty() const { return front_.token == 0; }
  std::size_t size() const { return empty() ? 0 : 1 + (later_ ? later_->size() : 0); }
  const Submitted& front() const { return front_; }
  const Submitted& operator[](std::size_t i) const { return i == 0 ? front_ : (*later_)[i - 1]; }
  void push(Submitted submitted);
  /// What comes to the front by it waits from `now` on.
  Submitted pop(TimePoint now);

 private:
  Submitted front_;
  std::unique_ptr<std::deque<Submitted>> later_;
};

/// What nearly every look at it needs is in its first cache line.
struct alignas(64) Name {
  std::string name;  // the key (name_key.h)
  ProcessSetId process_set;
  std::uint32_t batch = 0;  // learned; 0: none
  Slot slot = kNoSlot;
  RequestRef agreed;             // what the slot stands for
  Submissions waiting;           // here; the front one is announced, unless `held`
  bool held = false;             // ready here, kept back for its learned batch
  bool awaited = false;          // until its next order: a thread somewhere waits, so nobody keeps it back
  std::uint64_t ordered_at = 0;  // the number of its last order
  bool in_ready_list = false;    // root only: decided, not numbered yet
  Collection collection;
};

class Names {
 public:
  /// Null when there is none.
  Name* find(ProcessSetId set, const std::string& name) const;
  /// Finds it, or makes it. Steps repeat, so the names of one mostly come in the order in which they came
  /// first, which is that of their slots: where that is so nothing is searched for.
  Name& get(ProcessSetId set, const std::string& name);
  /// Null when the slot means nothing any more.
  Name* by_slot(Slot slot) const;

  /// Lets `slot` stand for this signature of this name from now on.
  void bind(Name& name, Slot slot, RequestRef agreed);
  /// The name's slot means nothing from now on.
  void unbind(Name& name);
  /// The same, but who reports it without having seen the order of this number is still understood, until
  /// forget_evicted(). The numbers grow.
  void evict(Name& name, std::uint64_t until);
  /// What the slot stood for; null when nobody may still report it.
  RequestRef evicted(Slot slot) const;
  std::size_t count_evicted() const { return evicted_.size(); }
  /// `seen_by_all(set, oldest)`: the last order of which all have heard who might report a slot of that set.
  /// `oldest` is the number of the first order that matters.
  template <class SeenByAll>
  void forget_evicted(SeenByAll seen_by_all) {
    for (auto& [set, evictions] : evictions_) {
      if (evictions.empty()) continue;
      const std::uint64_t seen = seen_by_all(set, evictions.front().until);
      for (; !evictions.empty() && evictions.front().until <= seen; evictions.pop_front()) {
        evicted_.erase(evictions.front().slot);
      }
    }
  }

  /// Drops it if nothing is known of it.
  void tidy(Name& name);
  void remove_set(ProcessSetId set);
  void clear();

  /// `each` must neither add nor drop names.
  template <class Each>
  void for_each(Each each) const {
    for (const Cell& cell : cells_) {
      if (cell.name) each(*cell.name);
    }
  }

 private:
  // A hash table with linear probing: of a name that is looked up one cell is read and the name itself.
  struct Cell {
    std::size_t hash = 0;
    std::unique_ptr<Name> name;
  };
  static std::size_t hash_of(ProcessSetId set, const std::string& name);
  /// Prefetches what is likely to be looked at soon, after the one at this place.
  void prefetch_after(std::size_t place) const;
  /// The name's cell, or the free cell where it would be.
  std::size_t cell_of(std::size_t hash, ProcessSetId set, const std::string& name) const;
  void grow();
  void erase(std::size_t cell);

  std::vector<Cell> cells_;  // a power of two of them; at least a third is free
  /// Whoever has a name in hand when the job fails goes on with it for a moment, so cleared names live on.
  std::vector<std::unique_ptr<Name>> cleared_;
  std::size_t count_ = 0;
  std::vector<Name*> slots_;    // by place
  std::size_t next_place_ = 0;  // where get() is likely to be asked next
  std::unordered_map<Slot, RequestRef> evicted_;
  struct Eviction {
    std::uint64_t until;
    Slot slot;
  };
  std::map<ProcessSetId, std::deque<Eviction>> evictions_;  // those of evicted_, the oldest first
};

}  // namespace dabke

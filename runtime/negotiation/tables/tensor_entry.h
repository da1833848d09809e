// What one rank knows of one tensor, group or call without a tensor: its slot, who waits for it here, and who
// below has reported it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/negotiation/tables/token.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

/// Two ranks may well submit one name to two overlapping sets in opposite order and wait for neither; only
/// when nothing has resolved it for this long is it looked at as the mistake of passing different process
/// sets; then again whenever the time has doubled.
inline constexpr Duration kSuspectAfter = std::chrono::seconds(1);

/// A set of small numbers; of those below 64 without memory of its own.
class ReporterSet {
 public:
  bool contains(int reporter) const { return reporter < 64 ? (low_ >> reporter & 1) != 0 : high(reporter); }
  void insert(int reporter) {
    if (reporter < 64) {
      low_ |= std::uint64_t{1} << reporter;
    } else {
      insert_high(reporter);
    }
  }
  void clear() {
    low_ = 0;
    high_.reset();
  }

 private:
  bool high(int reporter) const;
  void insert_high(int reporter);
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
  std::vector<Rank> joined;           // below the reporters; as in a report
  std::vector<Candidate> candidates;  // none: all reports came by slot
  TimePoint since{};                  // the first report
  TimePoint warned{};                 // the last stall report, or `since`
  TimePoint suspect_at{};             // when to look for a process-set mismatch
  std::uint64_t recording = 0;        // the number of the timeline that has its beginning
};

struct Submitted {
  Token token = Token::none;
  RequestRef request;
  TimePoint since{};  // it was submitted, or became the first of its name
};

/// What was submitted here under one name and is not ordered yet, in order. Nearly always one at most, which
/// lies here itself.
class Submissions {
 public:
  bool empty() const { return front_.token == Token::none; }
  std::size_t size() const { return empty() ? 0 : 1 + (later_ ? later_->size() : 0); }
  const Submitted& front() const { return front_; }
  const Submitted& operator[](std::size_t i) const { return i == 0 ? front_ : (*later_)[i - 1]; }
  void push(Submitted submitted) {
    if (empty()) {
      front_ = std::move(submitted);
    } else {
      queue(std::move(submitted));
    }
  }
  /// What comes to the front by it waits from `now` on.
  Submitted pop(TimePoint now) {
    Submitted first = std::exchange(front_, {});
    if (later_) fill_front(now);
    return first;
  }

 private:
  void queue(Submitted submitted);
  void fill_front(TimePoint now);

  Submitted front_;
  std::unique_ptr<std::deque<Submitted>> later_;
};

/// What nearly every look at it needs is in its first cache line.
struct alignas(64) TensorEntry {
  std::string name;  // the key (name_key.h)
  ProcessSetId process_set;
  std::uint32_t batch = 0;  // learned; 0: none
  wire::Slot slot = wire::kNoSlot;
  RequestRef agreed;             // what the slot stands for
  Submissions waiting;           // here; the front one is announced, unless `held`
  bool held = false;             // ready here, kept back for its learned batch
  bool awaited = false;          // until its next order: a thread somewhere waits, so nobody keeps it back
  std::uint64_t ordered_at = 0;  // the number of its last order
  bool in_ready_list = false;    // root only: decided, not numbered yet
  Collection collection;
};

/// What somebody has reported of it.
inline const Request& request_of(const TensorEntry& entry) {
  const auto& candidates = entry.collection.candidates;
  return candidates.empty() ? *entry.agreed : *candidates.front().request;
}

}  // namespace dabke::negotiation

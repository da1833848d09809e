// One rank's entry for a tensor, a group or a call without a tensor: its slot, the requests that wait here,
// and the ranks below that have reported it.
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

/// Two ranks may submit one name to two overlapping sets in opposite order, and wait for neither. If
/// nothing has resolved this for so long, it is examined as a mistake, in which ranks pass different process
/// sets. It is examined again whenever the time has doubled.
inline constexpr Duration kSuspectAfter = std::chrono::seconds(1);

/// A set of small numbers. Numbers below 64 need no memory of its own.
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
  std::unique_ptr<std::vector<bool>> high_;  // numbers from 64 on
};

/// The readiness of one name on its way through one rank. A reporter is 0 for the rank itself, and 1 + i for
/// its i-th child.
struct Collection {
  struct Part {  // one reporter's share of a variant
    int reporter;
    std::vector<Rank> ranks;  // empty: all ranks that report through it
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
  std::vector<Rank> joined;           // ranks below the reporters; as in a report
  std::vector<Candidate> candidates;  // empty if all reports came by slot
  TimePoint since{};                  // of the first report
  TimePoint warned{};                 // of the last stall report, or `since`
  TimePoint suspect_at{};             // when to check for a process-set mismatch
  std::uint64_t recording = 0;        // the number of the timeline that has its beginning
};

struct Submitted {
  Token token = Token::none;
  RequestRef request;
  TimePoint since{};         // when it was submitted, or became the first of its name
  std::uint64_t number = 0;  // in its sequence of calls; 0: it is in none
};

/// The requests that were submitted here under one name and are not ordered yet, in order. There is nearly
/// always at most one, which needs no other memory.
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
  /// Takes the front request. The request that comes to the front waits from `now` on.
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

/// The first cache line has what nearly every access needs.
struct alignas(64) TensorEntry {
  std::string name;  // the key (name_key.h)
  ProcessSetId process_set;
  std::uint32_t batch = 0;  // the learned batch; 0: none
  wire::Slot slot = wire::kNoSlot;
  RequestRef agreed;             // the signature that the slot represents
  Submissions waiting;           // here; the front one is announced, unless `held`
  bool held = false;             // ready here, but kept back for its learned batch
  bool awaited = false;          // until its next order: a thread somewhere waits, so no rank keeps it back
  std::uint64_t ordered_at = 0;  // the number of its last order
  bool in_ready_list = false;    // on the root: decided, but not numbered yet
  Collection collection;
};

/// Returns the request of one of its reports.
inline const Request& request_of(const TensorEntry& entry) {
  const auto& candidates = entry.collection.candidates;
  return candidates.empty() ? *entry.agreed : *candidates.front().request;
}

}  // namespace dabke::negotiation

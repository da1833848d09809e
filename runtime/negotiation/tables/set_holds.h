// The holds of each process set, on the root. A set ends when nobody holds it any more.
//
// The whole job holds a set at most once: by its configuration, or by an add over the world. The set's
// members may hold the same set any number of times, for owners that are independent of each other.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/base/world.h"

namespace dabke::negotiation {

class SetHolds {
 public:
  bool is_held_by_job(ProcessSetId id) const { return find(id).by_job; }
  bool is_held_by_members(ProcessSetId id) const { return find(id).by_members != 0; }
  void hold_by_job(ProcessSetId id) { holds_[id].by_job = true; }
  void hold_by_members(ProcessSetId id) { ++holds_[id].by_members; }
  // The set is held. Returns true if it ends by this release.
  bool release_by_job(ProcessSetId id) {
    holds_[id].by_job = false;
    return end(id);
  }
  bool release_by_members(ProcessSetId id) {
    --holds_[id].by_members;
    return end(id);
  }

 private:
  struct Holds {
    bool by_job = false;
    std::uint64_t by_members = 0;
  };
  Holds find(ProcessSetId id) const {
    const auto found = holds_.find(id);
    return found == holds_.end() ? Holds() : found->second;
  }
  bool end(ProcessSetId id) {
    if (find(id).by_job || find(id).by_members != 0) return false;
    holds_.erase(id);
    return true;
  }

  std::map<ProcessSetId, Holds> holds_{{kWorldSet, {.by_job = true}}};
};

}  // namespace dabke::negotiation

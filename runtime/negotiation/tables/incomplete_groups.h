// Groups of which only some members have come.
//
// On each rank: what has come and since when, so that a group that never becomes whole is reported, ended,
// and listed in dumps. A group that the ranks have agreed to fail stays until its missing members have come.
// Each of these fails with the same text, so the next group of that name begins at the same place on every
// rank. On the root: the answers of the ranks, and what follows from them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/negotiation/tables/process_sets.h"
#include "runtime/negotiation/tables/topology.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

struct IncompleteGroup {
  std::uint32_t size = 0;           // tensors that the group must have
  std::vector<RequestRef> members;  // that have come
  TimePoint since{};
  TimePoint asked{};     // when the root was last notified, or `since`
  bool awaited = false;  // a thread waits for a member: once whole, the group must not be kept back
  Status failed;         // not ok: the error of the members still to come

  std::uint32_t came() const;
  /// "2 of 3 members of group 'g': 'a', 'b'"
  std::string describe(const std::string& name) const;
};

class IncompleteGroups {
 public:
  using Key = std::pair<ProcessSetId, std::string>;

  /// Adds a member that has come. Returns an error if its group has failed, and the member with it.
  Status add(const RequestRef& member, const std::string& group, std::uint32_t size, TimePoint now);
  /// Drops a group that is whole. Returns true if a thread waits for it.
  bool finish(ProcessSetId set, const std::string& group);
  /// Fails a group. Returns true if the group is here. Members that are still to come will fail too.
  bool fail(ProcessSetId set, const std::string& group, const Status& why);
  void forget(ProcessSetId set, const std::string& group) { groups_.erase({set, group}); }
  /// Returns null if no such group waits for members.
  IncompleteGroup* find(ProcessSetId set, const std::string& group);
  const IncompleteGroup* find(ProcessSetId set, const std::string& group) const;

  /// Calls `each` with every group that waits for members.
  template <class Each>
  void for_each(Each each) const {
    for (const auto& [key, group] : groups_) {
      if (group.failed.is_ok()) each(key, group);
    }
  }
  template <class Each>
  void for_each(Each each) {
    for (auto& [key, group] : groups_) {
      if (group.failed.is_ok()) each(key, group);
    }
  }
  bool empty() const { return groups_.empty(); }
  void clear() { groups_.clear(); }

 private:
  std::map<Key, IncompleteGroup> groups_;
};

/// The answers of a set's ranks about one group. Kept on the root.
struct GroupInquiry {
  std::uint32_t id = 0;
  ProcessSetId process_set = kWorldSet;
  std::string group;
  Duration age{};  // the longest time that any rank has waited for members
  TimePoint deadline{};
  std::vector<Rank> asked;
  std::map<Rank, wire::GroupAnswerMessage> answers;

  bool everybody_answered() const { return answers.size() >= asked.size(); }
};

/// Returns why the ranks can never run this group: other sizes, more members than its size, or a member that
/// a rank has refused. Only once every rank has begun the group. Otherwise it would fail for some ranks
/// before they come.
Status group_failure(const GroupInquiry& inquiry, const Topology& topology);
/// Returns which rank has which members; nothing if no rank waits for members.
std::optional<std::string> incomplete_group_text(const GroupInquiry& inquiry, const Topology& topology);
/// True if some rank has all members. The other ranks are then awaited as for any name, and reported there.
bool is_whole_somewhere(const GroupInquiry& inquiry);

}  // namespace dabke::negotiation

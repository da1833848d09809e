// Groups of which only some members have come.
//
// On each rank: what has come since when, so that a group that never becomes whole is told of, ended, and
// listed in dumps. A group that the ranks have agreed to fail stays until the members that were still to come
// have come; each of them fails with the same text, so the next group of that name begins at the same place
// on every rank. On the root: the answers of the ranks, and what follows from them.
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
  std::uint32_t size = 0;           // tensors that it is to have
  std::vector<RequestRef> members;  // that have come
  TimePoint since{};
  TimePoint asked{};     // when the root was told last, or `since`
  bool awaited = false;  // a thread waits for a member: once whole it is not to be kept back
  Status failed;         // not ok: what becomes of the members still to come

  std::uint32_t came() const;
  /// "2 of 3 members of group 'g': 'a', 'b'"
  std::string describe(const std::string& name) const;
};

class IncompleteGroups {
 public:
  using Key = std::pair<ProcessSetId, std::string>;

  /// A member has come. Not ok: its group has failed, and so does it.
  Status add(const RequestRef& member, const std::string& group, std::uint32_t size, TimePoint now);
  /// It is whole. Whether a thread waits for it.
  bool finish(ProcessSetId set, const std::string& group);
  /// Whether there is such a group here. Members that are still to come will fail too.
  bool fail(ProcessSetId set, const std::string& group, const Status& why);
  void forget(ProcessSetId set, const std::string& group) { groups_.erase({set, group}); }
  /// Null when none is waiting for members.
  IncompleteGroup* find(ProcessSetId set, const std::string& group);
  const IncompleteGroup* find(ProcessSetId set, const std::string& group) const;

  /// Those that wait for members, of one set or of all.
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

/// What the ranks of a set say of one group. Kept on the root.
struct GroupInquiry {
  std::uint32_t id = 0;
  ProcessSetId process_set = kWorldSet;
  std::string group;
  Duration age{};  // the longest that anybody has waited for members
  TimePoint deadline{};
  std::vector<Rank> asked;
  std::map<Rank, wire::GroupAnswerMessage> answers;

  bool everybody_answered() const { return answers.size() >= asked.size(); }
};

/// Why the ranks can never run this group: other sizes, more members than it is to have, or a member that a rank has
/// refused. Only once every rank has begun it, or it would fail for some before they come.
Status group_failure(const GroupInquiry& inquiry, const Topology& topology);
/// Who has what of it; nothing when no rank waits for members.
std::optional<std::string> incomplete_group_text(const GroupInquiry& inquiry, const Topology& topology);
/// Whether some rank has all members: the others then are waited for like for any name, and reported there.
bool is_whole_somewhere(const GroupInquiry& inquiry);

}  // namespace dabke::negotiation

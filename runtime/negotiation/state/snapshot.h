// The requests that one rank waits for at one moment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/call/request.h"
#include "runtime/negotiation/tables/token.h"

namespace dabke::negotiation {

struct NegotiationState;

struct Snapshot {
  enum class State { announced, kept_back, queued };
  struct Pending {
    Token token;
    RequestRef request;
    State state;
  };
  std::uint64_t last_order = 0;
  struct Group {  // some of its members are still to come
    ProcessSetId process_set;
    std::string name;
    CollectiveKind kind;
    std::string members;  // "2 of 3 members of group 'g': 'a', 'b'"
    TimePoint since;
  };
  std::vector<Pending> pending;
  std::vector<Group> groups;
  std::map<ProcessSetId, std::vector<Rank>> sets;  // that the entries above name
};

Snapshot snapshot_of(const NegotiationState& state);

}  // namespace dabke::negotiation

// The members of an epoch of an elastic job. dabkerun writes the plan, and every member reads the same text:
// the new members, the lost ones, and the holders of the newest commit. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/bootstrap/elastic/arrival.h"
#include "runtime/links/process_identity.h"

namespace dabke::bootstrap {

struct EpochMember {
  WorkerId worker = 0;
  int former_rank = -1;  // in the epoch before; -1: it is new
  int local_rank = 0;    // kept from epoch to epoch, so there may be holes
  std::optional<std::uint64_t> commit = {};
  links::ProcessIdentity process;
  std::string host;
  std::string process_sets = {};  // as in its arrival
  friend bool operator==(const EpochMember&, const EpochMember&) = default;
};

struct LostMember {
  int rank = 0;  // in the epoch before
  std::string host;
  std::string why;  // one line
  friend bool operator==(const LostMember&, const LostMember&) = default;
};

struct EpochPlan {
  std::uint64_t epoch = 1;
  std::uint64_t change = 0;          // changes announced before this epoch; they are counted through the job
  std::vector<EpochMember> members;  // by rank
  std::vector<LostMember> lost;      // since the epoch before

  /// The newest commit of all members; none: no member has one.
  std::optional<std::uint64_t> newest_commit() const;
  /// The ranks that hold the newest commit. All others lack it. Empty if there is no commit.
  std::vector<int> holders() const;
  friend bool operator==(const EpochPlan&, const EpochPlan&) = default;
};

std::string plan_key(std::uint64_t epoch);
/// The key of an announced change, counted from 1. The value describes the change in one line.
std::string change_key(std::uint64_t change);
/// The key and the value with which dabkerun reports the loss of a member to those that still form the epoch.
std::pair<std::string, std::string> loss_note(std::uint64_t epoch, const std::string& why);
std::string to_text(const EpochPlan& plan);
/// None if the text makes no sense.
std::optional<EpochPlan> read_epoch_plan(std::string_view text);

}  // namespace dabke::bootstrap

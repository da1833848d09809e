// One line about an elastic job for live statistics: its members, and the slots outside of the epoch. Pure.
#pragma once

#include <string>
#include <vector>

namespace dabke::launcher {

struct MembersSummary {
  int members = 0;         // that live
  int between_epochs = 0;  // of these, the members that have left their epoch and wait for the next one
  // Slots.
  std::vector<std::string> starting, waiting, leaving;
  std::vector<std::string> left_out;  // with their times
};

/// "3 ranks; starting: b:1; waiting: a:2; left out: host c for 8 s, a:0 for 3 s"
std::string text_of(const MembersSummary& summary);

}  // namespace dabke::launcher

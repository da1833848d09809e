// The hosts of all ranks, which a launcher writes into the job's part of the store before any rank comes. So
// an absent rank can be named with its host. The note is valid for the launcher's rank numbers, those of the
// first epoch. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dabke::bootstrap {

inline constexpr const char* kPlacementKey = "placement";

/// Consecutive ranks on one host.
struct PlacedRanks {
  int first = 0, last = 0;
  std::string host;
  friend bool operator==(const PlacedRanks&, const PlacedRanks&) = default;
};

/// `hosts` is indexed by rank.
std::string placement_note(const std::vector<std::string>& hosts);
/// Lines that make no sense are left out.
std::vector<PlacedRanks> read_placement_note(std::string_view note);

/// "ranks 12-14 on server2, rank 20 on server3"; of a long list only the beginning. `ranks` ascend. A rank
/// whose host is unknown is named without it.
std::string name_ranks(const std::vector<int>& ranks, const std::vector<PlacedRanks>& placed);

}  // namespace dabke::bootstrap

// Where a launcher has put each rank, as it says in the job's part of the store before any has come: so one that does not
// come can be named with its host. It holds for the numbers that the launcher gave, those of the first epoch. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dabke::bootstrap {

inline constexpr const char* kPlacementKey = "placement";

/// Neighbours on one host.
struct PlacedRanks {
  int first = 0, last = 0;
  std::string host;
  friend bool operator==(const PlacedRanks&, const PlacedRanks&) = default;
};

/// `hosts` is by rank.
std::string placement_note(const std::vector<std::string>& hosts);
/// What makes no sense is left out.
std::vector<PlacedRanks> read_placement_note(std::string_view note);

/// "ranks 12-14 on server2, rank 20 on server3"; of many the first. `ranks` ascend. Those of whose host nothing is
/// known are named without it.
std::string name_ranks(const std::vector<int>& ranks, const std::vector<PlacedRanks>& placed);

}  // namespace dabke::bootstrap

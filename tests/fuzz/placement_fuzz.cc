// The launcher's placement of ranks, as the store has it. A placement that was read makes sense, and reads
// the same after it was written again. Ranks get names from it, whatever it contains.
#include <fmt/format.h>

#include "runtime/bootstrap/placement_note.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::test::Input input(data, size);
  std::vector<int> ranks;
  for (std::size_t i = input.below(32), rank = 0; i > 0; --i)
    ranks.push_back(static_cast<int>(rank += 1 + input.below(4)));
  std::vector<std::string> hosts;
  for (std::size_t i = input.below(16); i > 0; --i) hosts.push_back(fmt::format("host {}", input.below(3)));

  const auto own = dabke::bootstrap::read_placement_note(dabke::bootstrap::placement_note(hosts));
  std::vector<std::string> read_hosts;
  for (const dabke::bootstrap::PlacedRanks& each : own) {
    FUZZ_CHECK(static_cast<std::size_t>(each.first) == read_hosts.size() && each.last >= each.first);
    for (int rank = each.first; rank <= each.last; ++rank) read_hosts.push_back(each.host);
  }
  FUZZ_CHECK(read_hosts == hosts);

  const auto placed = dabke::bootstrap::read_placement_note(input.rest());
  std::string text;
  for (const dabke::bootstrap::PlacedRanks& each : placed) {
    FUZZ_CHECK(each.first >= 0 && each.last >= each.first && !each.host.empty());
    FUZZ_CHECK(each.host.find('\n') == std::string::npos);
    text += fmt::format("{} {} {}\n", each.first, each.last, each.host);
  }
  FUZZ_CHECK(dabke::bootstrap::read_placement_note(text) == placed);
  FUZZ_CHECK(dabke::bootstrap::name_ranks(ranks, placed).empty() == ranks.empty());
  return 0;
}

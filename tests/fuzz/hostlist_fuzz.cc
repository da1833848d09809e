// Slurm's lists of hosts and of counts. A list that was read has valid names, and reads
// the same after it was written again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/hosts/hostlist.h"
#include "launcher/hosts/placement.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::test::Input input(data, size);
  const bool is_counts = input.below(2) == 1;
  const std::string_view text = input.rest();
  if (is_counts) {
    const auto counts = dabke::launcher::parse_repeated_counts(text, "X");
    if (!counts.is_ok()) return 0;
    FUZZ_CHECK(!counts->empty() && counts->size() <= dabke::launcher::kMostRanks);
    for (const int count : *counts) FUZZ_CHECK(count >= 1 && count <= dabke::launcher::kMostSlots);
    const auto again =
        dabke::launcher::parse_repeated_counts(fmt::format("{}", fmt::join(*counts, ",")), "X");
    FUZZ_CHECK(again.is_ok() && *again == *counts);
    return 0;
  }
  const auto names = dabke::launcher::parse_hostlist(text, "X");
  if (!names.is_ok()) return 0;
  FUZZ_CHECK(!names->empty() && names->size() <= dabke::launcher::kMostRanks);
  for (const std::string& name : *names)
    FUZZ_CHECK(!name.empty() && name.find_first_of("[], \n") == std::string::npos);
  const auto again = dabke::launcher::parse_hostlist(fmt::format("{}", fmt::join(*names, ",")), "X");
  FUZZ_CHECK(again.is_ok() && *again == *names);
  return 0;
}

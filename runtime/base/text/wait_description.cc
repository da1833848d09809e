#include "runtime/base/text/wait_description.h"

#include <fstream>

#include <fmt/format.h>

namespace dabke {

std::string describe(const WaitDescription& rank) {
  std::string waits = fmt::format("{}", fmt::join(rank.waits_for, ", "));
  if (rank.waits_for_count > rank.waits_for.size())
    waits += fmt::format(" and {} more", rank.waits_for_count - rank.waits_for.size());
  std::string inside = "it is inside " + rank.inside;
  if (rank.inside_s >= 0) inside += fmt::format(", started {:.1f} s ago and not finished", rank.inside_s);
  if (!rank.inside.empty())
    return waits.empty() ? inside : fmt::format("{}; after that it waits for {}", inside, waits);
  if (waits.empty()) return "it has not made this call and has no other call pending";
  return fmt::format(
      "it waits for {} instead{}: the ranks make different calls, or the same calls in orders that block "
      "each other",
      waits, rank.waits_s >= 0 ? fmt::format(", for {:.1f} s", rank.waits_s) : "");
}

std::string process_state(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  std::getline(file, stat);
  const auto name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return "is gone";
  switch (stat[name_end + 2]) {
    case 'T':
    case 't': return "is stopped (SIGSTOP, Ctrl-Z, or a debugger)";
    case 'Z':
    case 'X': return "is gone";
    case 'R': return "is running";
    default: break;
  }
  std::ifstream channel(fmt::format("/proc/{}/wchan", pid));
  std::string where;
  std::getline(channel, where);
  return where.empty() || where == "0" ? "is asleep" : fmt::format("waits in the kernel ({})", where);
}

}  // namespace dabke

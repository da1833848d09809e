#include "runtime/base/text/core_list.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fmt/format.h>

namespace dabke {

Result<std::vector<unsigned>> parse_core_list(std::string_view text, std::string_view source) {
  std::vector<unsigned> cores;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    unsigned core = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), core);
    if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size() || core >= CPU_SETSIZE) {
      return Status(
          Code::invalid_argument,
          fmt::format("{}='{}': '{}' is not a core number; expected a comma-separated list, such as 0,2",
                      source, text, word));
    }
    cores.push_back(core);
  }
  return cores;
}

Status pin_this_thread(unsigned core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (::sched_setaffinity(0, sizeof cores, &cores) == 0) return {};
  return system_error(fmt::format("cannot run on core {}", core), errno);
}

}  // namespace dabke

#include "runtime/base/settings/variable_names.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include "runtime/base/settings/config.h"
#include "runtime/base/text/spelling.h"

namespace dabke {
namespace {

/// A variable of Horovod's build. Its name is one letter away from HOROVOD_CPU_OPERATIONS.
constexpr std::string_view kOfHorovodsBuild = "HOROVOD_GPU_OPERATIONS";
constexpr std::string_view kOfTests = "DABKE_TEST_";

/// The variables with this prefix that Dabke reads.
std::vector<std::string> known_names(std::string_view prefix) {
  std::vector<std::string> names;
  for (const Knob& knob : knobs()) {
    const std::string_view name = prefix == "DABKE_" ? knob.env : knob.horovod;
    if (!name.empty()) names.push_back(fmt::format("{}{}", prefix, name));
  }
  for (const std::string_view name : kLauncherVariables) names.push_back(fmt::format("{}{}", prefix, name));
  return names;
}

/// The variable that `name`, which is spelled like its flag, may mean: "DABKE_TIMELINE" for
/// "DABKE_TIMELINE_FILENAME". Empty if there is none.
std::string named_like_flag(std::string_view name) {
  for (const Knob& knob : knobs()) {
    std::string flag = "DABKE_";
    std::ranges::transform(knob.flag, std::back_inserter(flag), [](unsigned char c) {
      return c == '-' ? '_' : static_cast<char>(std::toupper(c));
    });
    if (flag == name) return knob.env_name();
  }
  return "";
}

}  // namespace

std::vector<std::string> misspelt_variables(std::span<const std::string> names) {
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    const bool is_ours = name.starts_with("DABKE_");
    if ((!is_ours && !name.starts_with("HOROVOD_")) || name.starts_with(kOfTests) || name == kOfHorovodsBuild)
      continue;
    const std::string_view prefix = is_ours ? "DABKE_" : "HOROVOD_";
    const std::vector<std::string> known = known_names(prefix);
    if (std::ranges::find(known, name) != known.end()) continue;
    std::string meant = named_like_flag(name);
    if (meant.empty())
      meant = closest_name(name, known, std::max<std::size_t>(1, (name.size() - prefix.size()) / 6));
    if (!meant.empty())
      lines.push_back(fmt::format("{} is set, but nothing reads it; did you mean {}?", name, meant));
  }
  return lines;
}

std::vector<std::string> variables_of_process() {
  std::vector<std::string> names;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view variable(*each);
    names.emplace_back(variable.substr(0, variable.find('=')));
  }
  return names;
}

}  // namespace dabke

#include "launcher/cli/build_report.h"

#include <span>

#include <fmt/format.h>

#include "build_parts.h"
#include "launcher/cli/build_facts.h"

namespace dabke {

std::string version_text() { return "dabkerun " DABKE_VERSION "\n"; }

std::string build_report() {
  std::string out = "Dabke v" DABKE_VERSION ":\n";
  // Scripts that read horovodrun's report look for lines such as "    [X] Gloo".
  const auto add = [&out](std::span<const BuildPart> parts) {
    for (const BuildPart& part : parts)
      out += fmt::format("    [{}] {}\n", part.is_built ? 'X' : ' ', part.title);
  };
  out += "\nAvailable Controllers:\n";
  add(kControllers);
  out += "\nAvailable Tensor Operations:\n";
  add(kBackends);
  out += "\nBuild:\n";
  out += fmt::format("    compiler   {}\n    build type {}\n    platform   {}\n", DABKE_COMPILER,
                     DABKE_BUILD_TYPE, DABKE_PLATFORM);
  return out;
}

}  // namespace dabke

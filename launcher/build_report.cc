#include "launcher/build_report.h"

#include <fmt/format.h>

#include "build_facts.h"

namespace dabke {

std::string version_text() { return "dabkerun " DABKE_VERSION "\n"; }

std::string build_report() {
  std::string out = "Dabke v" DABKE_VERSION ":\n";
  // Scripts that read horovodrun's report look for lines such as "    [X] Gloo".
  const auto add = [&](const char* name, bool is_built) {
    out += fmt::format("    [{}] {}\n", is_built ? 'X' : ' ', name);
  };
  out += "\nAvailable Controllers:\n";
#define X(name, is_built) add(name, is_built);
  DABKE_CONTROLLERS(X)
  out += "\nAvailable Tensor Operations:\n";
  DABKE_TENSOR_OPERATIONS(X)
#undef X
  out += "\nBuild:\n";
  out += fmt::format("    compiler   {}\n    build type {}\n    platform   {}\n", DABKE_COMPILER,
                     DABKE_BUILD_TYPE, DABKE_PLATFORM);
  return out;
}

}  // namespace dabke

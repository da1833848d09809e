#include "launcher/cli/build_report.h"

#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "build_parts.h"
#include "launcher/agent/program.h"
#include "launcher/agent/version.h"
#include "launcher/cli/build_facts.h"
#include "launcher/cli/config_file.h"

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
  out += fmt::format("    compiler   {}\n    build type {}\n    platform   {}\n    CUDA       {}\n",
                     DABKE_COMPILER, DABKE_BUILD_TYPE, DABKE_PLATFORM, DABKE_CUDA);
  out += fmt::format("    --config-file  {}\n",
                     reads_config_files() ? "read by yaml-cpp" : "not read: built without yaml-cpp");
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  out += fmt::format("\nPaths:\n    dabkerun   {}\n", error ? "not known: " + error.message() : own.string());
  const char* path = std::getenv("PATH");
  for (const std::string program : {"ssh", "srun", "mpirun"}) {
    const std::string found = find_program(program, path != nullptr ? path : kStandardPath).path;
    out += fmt::format("    {:<10} {}\n", program, found.empty() ? "not in PATH" : found);
  }
  return out;
}

}  // namespace dabke

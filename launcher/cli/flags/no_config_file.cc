#include <fmt/format.h>

#include "launcher/cli/flags/config_file.h"

namespace dabke::launcher {

Result<std::vector<ConfigEntry>> read_config_file(const std::string& path) {
  return Status(
      Code::invalid_argument,
      fmt::format(
          "--config-file {}: this build cannot read config files (built without yaml-cpp): use flags or "
          "DABKE_ variables, or build with -Dconfig_files=enabled (Debian package libyaml-cpp-dev)",
          path));
}

bool reads_config_files() { return false; }

}  // namespace dabke::launcher

// The file that --config-file names: YAML whose keys are flags.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// What the file gives, in its order. Of a section (a map within the map) the keys are joined by dashes, as in
/// timeline-filename; `params`, as Horovod's files have it, adds nothing, and `enabled` is the section itself.
struct ConfigEntry {
  std::string key;                 // a flag without its dashes; dashes for underscores
  std::string value;               // of a list its parts, with commas between
  std::vector<std::string> parts;  // those of a list, or the value alone
  int line = 0;
  bool is_false = false, is_true = false;
};

/// Errors name file, line and remedy. A build without yaml-cpp says so of every file.
Result<std::vector<ConfigEntry>> read_config_file(const std::string& path);
/// Whether this build reads them.
bool reads_config_files();

}  // namespace dabke::launcher

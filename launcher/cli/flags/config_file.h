// The file that --config-file names: YAML whose keys are flags.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// One entry of the file, in the file's order. The keys of a section (a map within the map) are joined by
/// dashes, as in timeline-filename. The section `params`, as in Horovod's files, adds nothing, and the key
/// `enabled` stands for the section itself.
struct ConfigEntry {
  std::string key;                 // a flag without its dashes; dashes for underscores
  std::string value;               // for a list its parts, separated by commas
  std::vector<std::string> parts;  // the parts of a list, or the single value
  int line = 0;
  bool is_false = false, is_true = false;
};

/// Errors name file, line and remedy. Without yaml-cpp, the build returns an error for every file.
Result<std::vector<ConfigEntry>> read_config_file(const std::string& path);
/// True if this build can read such files.
bool reads_config_files();

}  // namespace dabke::launcher

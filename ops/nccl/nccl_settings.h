// The value that NCCL uses for one of its variables: the environment's value, else the first in its
// configuration files. A file has one line NAME=VALUE for each variable, and comments that begin with '#'.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/settings/config.h"

namespace dabke::nccl {

struct Setting {
  std::string value;
  std::string file;  // empty if the value is from the environment
};

/// Returns the files in NCCL's order: NCCL_CONF_FILE, or without it .nccl.conf in the user's home; then
/// /etc/nccl.conf.
std::vector<std::string> settings_files(const Environment& environment);
/// Returns nothing if NCCL uses its default. A file that cannot be read counts as empty, as in NCCL.
std::optional<Setting> find_setting(const std::string& name, const Environment& environment,
                                    const std::vector<std::string>& files);

/// Returns an error if the settings rule out communicators that do not block.
Status refuse_blocking(const Environment& environment, const std::vector<std::string>& files);

}  // namespace dabke::nccl

// What NCCL takes for the value of one of its variables: the environment's, else the first of its configuration files
// that has it. A file has a line NAME=VALUE for each, and comments that begin with '#'.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/settings/config.h"

namespace dabke::nccl {

struct Setting {
  std::string value;
  std::string file;  // empty: it is the environment's
};

/// In the order in which NCCL reads them: what NCCL_CONF_FILE names, else .nccl.conf of the user's home; /etc/nccl.conf.
std::vector<std::string> settings_files(const Environment& environment);
/// Nothing: NCCL takes its default. A file that cannot be read says nothing, to NCCL either.
std::optional<Setting> find_setting(const std::string& name, const Environment& environment,
                                    const std::vector<std::string>& files);

/// An error: communicators that do not block are not to be had.
Status refuse_blocking(const Environment& environment, const std::vector<std::string>& files);

}  // namespace dabke::nccl

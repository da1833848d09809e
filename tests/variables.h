// The environment of a process, made up by a test.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/settings/config.h"

namespace dabke::test {

using Variables = std::map<std::string, std::string>;

inline Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace dabke::test

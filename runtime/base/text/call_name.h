// The name of a call as all messages write it.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "runtime/base/kinds.h"

namespace dabke {

/// "allreduce 'x'"
inline std::string name_of_call(std::string_view collective, std::string_view name) {
  return fmt::format("{} '{}'", collective, name);
}
inline std::string name_of_call(CollectiveKind kind, std::string_view name) {
  return name_of_call(name_of(kind), name);
}

}  // namespace dabke

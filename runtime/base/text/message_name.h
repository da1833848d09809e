// The names of messages. A message is negotiated in the process set of its two ranks (pair_sets.h). Its name
// contains what the caller's name does not: "x [0 to 1, tag 7, process set 3]".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/world.h"

namespace dabke {

/// The name of a message from one rank to another within a process set, without the parts that are 0.
std::string message_name(std::string_view name, Rank from, Rank to, std::int64_t tag, ProcessSetId set);

/// The process set in the name of a message.
ProcessSetId set_of_message(std::string_view message_name);

}  // namespace dabke

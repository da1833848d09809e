// The names of messages. A message is negotiated in the process set of its two ranks (pair_sets.h). Its name
// contains what the caller's name does not: "x [0 to 1, tag 7, process set 3]".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/world.h"

namespace dabke {

/// The name of a message from one rank to another within a process set, without the parts that are 0.
/// "x [any to 1]" if it is from kAnyRank.
std::string message_name(std::string_view name, Rank from, Rank to, std::int64_t tag, ProcessSetId set);

/// True for the name of a message from kAnyRank.
bool is_name_from_any(std::string_view message_name);

/// The name of a message from `sender`, in place of the name of one from kAnyRank.
std::string with_sender(std::string_view name_from_any, Rank sender);

/// The caller's name, in the name of a message.
std::string_view callers_name(std::string_view message_name);

/// The process set in the name of a message.
ProcessSetId set_of_message(std::string_view message_name);

}  // namespace dabke

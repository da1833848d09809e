// The checks of a request that need neither its memory nor another rank. There is one list for all
// collectives.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/status.h"
#include "runtime/call/request.h"

namespace dabke {

/// The process set of a request.
struct AskedIn {
  ProcessSetId set = kWorldSet;
  const std::vector<Rank>& ranks;  // in set order
};

/// invalid_argument: "allreduce 'x': ", and then what is wrong with it.
template <class... Args>
Status bad_request(const Request& request, fmt::format_string<Args...> format, Args&&... args) {
  return {Code::invalid_argument,
          fmt::format("{}: {}", name_of_call(request), fmt::format(format, std::forward<Args>(args)...))};
}

/// The longest name of a tensor or group, in bytes. Names travel in messages, many in one, and appear in
/// errors and timelines.
inline constexpr std::size_t kMostNameBytes = 4096;

/// Checks that a name is not empty, is UTF-8, and is not too long. `what` is its description: "name",
/// "group's name".
///   errors  invalid_argument; a byte that is not UTF-8 is escaped in the text
Status check_name(CollectiveKind kind, std::string_view what, std::string_view name);

/// Checks what a request alone shows: name, reduce operation, root, scales, dtypes and first dimensions.
///   splits  alltoall: rows to each rank of the set; empty for equal parts
///   errors  not_implemented, or invalid_argument with the collective, the tensor, the value and a valid
///           value
Status check_request(const Request& request, const AskedIn& in, std::span<const std::int64_t> splits);

}  // namespace dabke

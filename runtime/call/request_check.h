// What of a request can be checked alone, before any memory is looked at or any other rank is asked. One list, for
// all collectives.
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

/// The process set in which it is asked for.
struct AskedIn {
  ProcessSetId set = kWorldSet;
  const std::vector<Rank>& ranks;  // in set order
};

/// invalid_argument: "allreduce 'x': " and what is wrong with it.
template <class... Args>
Status bad_request(const Request& request, fmt::format_string<Args...> format, Args&&... args) {
  return {Code::invalid_argument,
          fmt::format("{}: {}", name_of_call(request), fmt::format(format, std::forward<Args>(args)...))};
}

/// The longest name of a tensor or group, in bytes. Names travel in messages, many in one, and stand in errors and timelines.
inline constexpr std::size_t kMostNameBytes = 4096;

/// Whether a name is not empty, UTF-8, and not too long. `what` it names: "name", "group's name".
///   errors  invalid_argument; a byte that is no part of UTF-8 is escaped in the text
Status check_name(CollectiveKind kind, std::string_view what, std::string_view name);

/// Whether all that it says by itself can run: name, reduce operation, root, scales, dtypes and first dimensions.
///   splits  alltoall: rows to each rank of the set; empty: equal parts
///   errors  invalid_argument, naming the collective, the tensor, the value and what would do; not_implemented
Status check_request(const Request& request, const AskedIn& in, std::span<const std::int64_t> splits);

}  // namespace dabke

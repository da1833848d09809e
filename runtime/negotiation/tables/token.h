#pragma once

#include <cstdint>

namespace dabke::negotiation {

/// What the caller of the negotiation knows a request by. It comes back in exactly one action; nothing here
/// looks inside it.
enum class Token : std::uint64_t { none = 0 };

}  // namespace dabke::negotiation

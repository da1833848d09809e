#pragma once

#include <cstdint>

namespace dabke::negotiation {

/// The caller's identifier of a request. It comes back in exactly one action; the negotiation does not
/// interpret it.
enum class Token : std::uint64_t { none = 0 };

}  // namespace dabke::negotiation

// The requests that have been seen, so that none is taken twice.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace dabke::store {

/// Stores for each client the counts seen: all up to a floor, and a few above it, because threads overtake
/// one another. So memory grows with the number of clients and not with the number of requests. Not
/// thread-safe.
class NonceBook {
 public:
  /// True if `nonce` ("<client>-<n>") is well formed and new; from now on it counts as seen.
  bool take(std::string_view nonce);

 private:
  struct Seen {
    std::uint64_t floor = 0;
    std::set<std::uint64_t> above;
  };
  std::map<std::string, Seen, std::less<>> clients_;
};

}  // namespace dabke::store

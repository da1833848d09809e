#include "runtime/store/nonce_book.h"

#include <charconv>

namespace dabke::store {
namespace {

/// A request that never arrived leaves a gap. After this many later requests the gap is closed, and a request
/// that comes so late is refused.
constexpr std::size_t kMostAbove = 4096;

}  // namespace

bool NonceBook::take(std::string_view nonce) {
  const auto dash = nonce.find('-');
  if (dash == std::string_view::npos || dash == 0) return false;
  std::uint64_t count = 0;
  const char* last = nonce.data() + nonce.size();
  const auto [end, error] = std::from_chars(nonce.data() + dash + 1, last, count);
  if (error != std::errc() || end != last || count == 0) return false;

  Seen& seen = clients_[std::string(nonce.substr(0, dash))];
  if (count <= seen.floor || !seen.above.insert(count).second) return false;
  if (seen.above.size() > kMostAbove) seen.floor = *seen.above.begin();
  while (!seen.above.empty() && *seen.above.begin() <= seen.floor + 1) {
    seen.floor = *seen.above.begin();
    seen.above.erase(seen.above.begin());
  }
  return true;
}

}  // namespace dabke::store

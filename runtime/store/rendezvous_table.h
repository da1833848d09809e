// The values of the rendezvous store.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace dabke::store {

/// Not thread-safe.
class RendezvousTable {
 public:
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  /// Null if the key is not there.
  const std::string* get(const std::string& key) const;
  /// The new count, or nothing if the key holds text that is not a number.
  std::optional<std::uint64_t> increment(const std::string& key);
  /// Removes `prefix` and all below it; everything if it is empty.
  void remove_all(const std::string& prefix);

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace dabke::store

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
  /// Adds to the counter `key`, 0 at first. Returns the new count. Returns nothing, and changes nothing, if
  /// the key holds text that is not a number, or if the sum does not fit.
  std::optional<std::int64_t> add(const std::string& key, std::int64_t amount);
  /// Removes `prefix` and all below it; everything if it is empty.
  void remove_all(const std::string& prefix);

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace dabke::store

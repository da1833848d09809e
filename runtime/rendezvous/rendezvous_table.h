// The values of the rendezvous store and those who wait for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/base/clock.h"

namespace dabke {

/// Callable from any thread.
class RendezvousTable {
 public:
  void set(const std::string& key, std::string value);
  /// Waits until `deadline` or close(); nothing when the key did not appear.
  std::optional<std::string> get(const std::string& key, TimePoint deadline);
  /// The new count, or nothing when the key holds text that is no number.
  std::optional<std::uint64_t> increment(const std::string& key);
  void remove_all(const std::string& prefix);
  /// Every wait ends, now and later.
  void close();

 private:
  // One condition a key: 256 ranks that each wait for another's address must not all wake at every set.
  struct Entry {
    std::optional<std::string> value;
    std::condition_variable changed;
    int waiting = 0;
  };

  std::mutex mutex_;
  bool closed_ = false;
  std::map<std::string, Entry> entries_;
};

}  // namespace dabke

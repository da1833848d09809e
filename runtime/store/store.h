// The rendezvous store, in which ranks leave addresses for one another before any link exists.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke::store {

/// Keys are text without whitespace, in which '/' separates parts. Values are any bytes. Callable from any
/// thread.
class Store {
 public:
  virtual ~Store() = default;
  virtual Status set(const std::string& key, std::string_view value) = 0;
  /// Waits for the key until `deadline`; code timeout, with the key's name, if it does not appear.
  virtual Result<std::string> get(const std::string& key, TimePoint deadline) = 0;
  /// Adds one to the counter `key` (0 at first) in one atomic step and returns the new value.
  virtual Result<std::uint64_t> increment(const std::string& key) = 0;
  /// Removes `prefix` and every key below `prefix/`; all keys if it is empty. Nobody may be using them any
  /// more. A store that ends with its job need not do anything.
  virtual Status remove_all(const std::string& prefix) {
    (void)prefix;
    return {};
  }
  /// From now on waits at most `limit` for an answer, also in calls under way: the job is over, and further
  /// calls only tidy up.
  virtual void hurry(Duration limit) { (void)limit; }
  /// The reason why it is useless to wait for other ranks here; get() may return it, too. Never of code
  /// timeout. Checks only now and then, so it may be called often (init_watch.h). `unlinked` is a rank whose
  /// link has ended, perhaps in good order.
  virtual Status trouble(Rank unlinked = -1) {
    (void)unlinked;
    return {};
  }
  /// From now on trouble() returns ok, whatever happens to the others.
  virtual void init_is_over() {}
  /// The address for messages, such as "http://127.0.0.1:4711", "file:/shared/job7" or "memory".
  virtual std::string describe() const = 0;
};

/// A view of `store` in which every key begins with `prefix/`.
std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix);

/// A store for ranks that are threads of one process, and for a job of one rank.
std::shared_ptr<Store> make_memory_store();

/// A store in a directory that all ranks see. Values are written to a temporary file and renamed, so readers
/// see all or nothing.
Result<std::shared_ptr<Store>> open_file_store(const std::string& directory);

}  // namespace dabke::store

// The rendezvous store: where ranks leave addresses for one another before any link exists.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke::store {

/// Keys are text without whitespace, '/' separates parts; values are any bytes. Callable from any thread.
class Store {
 public:
  virtual ~Store() = default;
  virtual Status set(const std::string& key, std::string_view value) = 0;
  /// Waits for the key until `deadline`; code timeout (naming the key) when it does not appear.
  virtual Result<std::string> get(const std::string& key, TimePoint deadline) = 0;
  /// Adds one to the counter `key` (0 at first) in one atomic step and returns the new value.
  virtual Result<std::uint64_t> increment(const std::string& key) = 0;
  /// Forgets `prefix` and every key below `prefix/`; with an empty prefix all keys. Nobody may be using them
  /// any more. A store that goes away with its job need not do anything.
  virtual Status remove_all(const std::string& prefix) {
    (void)prefix;
    return {};
  }
  /// Waits for an answer no longer than this from now on, and for what is under way: the job is over, and
  /// what is still said to the store is only tidying.
  virtual void hurry(Duration limit) { (void)limit; }
  /// Why nothing more is to be waited for that others would leave here; get() may end with it, too. Never of code
  /// timeout. Looks only now and then, so it may be asked often (init_watch.h).
  /// `unlinked`: a rank whose link has ended, which may be in good order.
  virtual Status trouble(Rank unlinked = -1) {
    (void)unlinked;
    return {};
  }
  /// From now on there is none, whatever becomes of the others.
  virtual void init_is_over() {}
  /// "http://127.0.0.1:4711", "file:/shared/job7", "memory"; for messages.
  virtual std::string describe() const = 0;
};

/// A view of `store` in which every key begins with `prefix/`.
std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix);

/// A store for ranks that are threads of one process, and for a job of one rank.
std::shared_ptr<Store> make_memory_store();

/// A directory that all ranks see. Values are written to a temporary file and renamed, so readers see all or
/// nothing.
Result<std::shared_ptr<Store>> open_file_store(const std::string& directory);

}  // namespace dabke::store

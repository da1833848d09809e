// The choice among several backends for a batch, and the wait for its end. Each lane has one, over the
// backends of the registry, and a backend that is put together from others one over those.
#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/backend/backend.h"

namespace dabke {

class BackendRunner {
 public:
  /// Takes backends in order of preference, owned by others; null ones are left out.
  explicit BackendRunner(std::vector<Backend*> backends);
  explicit BackendRunner(const std::vector<std::unique_ptr<Backend>>& backends);

  /// The first that can run it and serves the set; null when none does. From any thread.
  Backend* find(const CallSpec& call, const Extent& extent, const ProcessSetInfo& set) const;
  /// The one for this batch, prepared for the batch's process set when that is its first; all ranks of the
  /// set come to the same.
  Result<Backend*> choose(const Batch& batch);
  /// Runs it there, and waits.
  static Status run_on(Backend& backend, const Batch& batch);
  Status run(const Batch& batch);

  /// The set is gone: on all devices.
  void release(ProcessSetId set);
  void idle();
  /// May be called from any thread.
  void abort(const Status& cause);

 private:
  /// What is prepared apart from others.
  struct Key {
    Backend* backend;
    ProcessSetId set;
    Device device;
    auto operator<=>(const Key&) const = default;
  };

  std::vector<Backend*> backends_;
  std::set<Key> prepared_;
};

}  // namespace dabke

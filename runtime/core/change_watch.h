// The thread with which rank 0 of an elastic job waits for changes of the job's hosts, which dabkerun
// announces in its store. One request waits there at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/store/store.h"

namespace dabke::core {

class ChangeWatch {
 public:
  /// `job` is the job's part of the store, by a connection that nothing else uses. Waits for the changes
  /// after the first `known`. `announced` is called on the watch's thread, with the number of all changes. If
  /// the store is gone, the watch ends: dabkerun, which serves the store, is gone too.
  static Result<std::unique_ptr<ChangeWatch>> open(std::shared_ptr<store::Store> job, std::uint64_t known,
                                                   std::function<void(std::uint64_t changes)> announced);
  ~ChangeWatch();

 private:
  explicit ChangeWatch(std::shared_ptr<store::Store> job) : job_(std::move(job)) {}

  const std::shared_ptr<store::Store> job_;
  std::jthread thread_;
};

}  // namespace dabke::core

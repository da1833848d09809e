// The dumps that ranks leave in the store of their job, on their way to the launcher's thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/owned.h"
#include "runtime/diagnosis/dump.h"

namespace dabke {

class DumpGatherer {
 public:
  /// An error when there is no descriptor left.
  static Result<std::unique_ptr<DumpGatherer>> open();

  /// Takes what the store was given, if it is a dump. From any thread.
  void offer(const std::string& key, const std::string& value);
  /// Readable while there are dumps to take().
  int event() const { return event_.get(); }
  std::vector<Dump> take();

 private:
  explicit DumpGatherer(Fd event) : event_(std::move(event)) {}

  const Fd event_;
  std::mutex mutex_;
  std::vector<Dump> dumps_;
};

}  // namespace dabke

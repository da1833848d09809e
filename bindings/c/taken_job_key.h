// The job's key comes in an environment variable. Every program that the training program starts inherits it,
// and /proc shows it as long as the process lives. So the first init takes the key out.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/settings/config.h"

namespace dabke {

class TakenJobKey {
 public:
  /// Keeps the key of `environment`, overwrites the variable, and returns an environment that still has the
  /// key. The variable keeps its length. Its removal would race with getenv on other threads, and would leave
  /// the key in memory. A later value of the variable is a new key and is taken, too.
  Environment take(Environment environment);

 private:
  std::optional<std::string> kept_;
};

}  // namespace dabke

// The job's key comes in the environment, which every program that the training program starts inherits, and
// which /proc shows for as long as the process lives. So the first init takes it out.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/settings/config.h"

namespace dabke {

class TakenJobKey {
 public:
  /// Keeps the key that `environment` has, overwrites it there, and gives an environment in which it is still
  /// to be found. The variable stays, with as many characters: to remove it would race with getenv on other
  /// threads, and would leave the key in memory. A later value is a new key and is taken too.
  Environment take(Environment environment);

 private:
  std::optional<std::string> kept_;
};

}  // namespace dabke

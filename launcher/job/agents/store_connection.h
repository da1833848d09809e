// Connections of ranks to the store of their job, which agents carry to the launcher.
#pragma once

#include <string>

#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// Connects to the store of this process, at "http://127.0.0.1:port"; empty if no descriptor is left.
Fd connect_to_store(const std::string& url);

}  // namespace dabke::launcher

// The backends of this build.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/backend/backend.h"

namespace dabke {

/// Whether this build has a backend of this name.
bool is_backend_built(std::string_view name);

/// The backends of this build in order of preference, as far as DABKE_CPU_OPERATIONS lets them; reading this
/// function shows what the program can do. An error when a backend was asked for by name that is not there.
Result<std::vector<std::unique_ptr<Backend>>> make_backends(const BackendContext& context);

/// Those, and behind them that of tensors on devices, where this build has one.
Result<std::vector<std::unique_ptr<Backend>>> make_all_backends(const BackendContext& context);
/// How devices are opened; empty where this build can open none.
OpenDevice device_opener(const Config& config, const Environment& environment);

}  // namespace dabke

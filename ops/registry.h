// The backends of this build.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/backend/device_backend.h"

namespace dabke::ops {

/// Whether this build has a backend of this name.
bool is_backend_built(std::string_view name);

/// The backends of host tensors in order of preference, as far as DABKE_CPU_OPERATIONS lets them. Errors: a
/// backend was asked for by name, and this build or this job has no use of it.
Result<std::vector<std::unique_ptr<Backend>>> make_host_backends(const BackendContext& context);

/// Those, and the backends of tensors on devices.
Result<Backends> make_backends(const BackendContext& context);

/// The route of tensors on devices, by DABKE_GPU_OPERATIONS and what this rank's MPI takes.
DeviceRoute device_route(const BackendContext& context);

/// How devices are opened; empty where this build can open none.
OpenDevice device_opener(const Config& config, const Environment& environment);

}  // namespace dabke::ops

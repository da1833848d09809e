// The backends of this build.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/backend/device_backend.h"

namespace dabke::ops {

/// True if this build has a backend of this name.
bool is_backend_built(std::string_view name);

/// Returns the backends of host tensors that DABKE_CPU_OPERATIONS allows, in order of preference. Fails if a
/// backend was requested by name, and this build does not have it or this job has no use for it.
Result<std::vector<std::unique_ptr<Backend>>> make_host_backends(const BackendContext& context);

/// Returns the backends of host tensors, and the backends of tensors on devices.
Result<Backends> make_backends(const BackendContext& context);

/// Returns the route of tensors on devices, from DABKE_GPU_OPERATIONS and what this rank's MPI accepts.
DeviceRoute device_route(const BackendContext& context);

/// Returns the function that opens devices; empty if this build can open none.
OpenDevice device_opener(const Config& config, const Environment& environment);

}  // namespace dabke::ops

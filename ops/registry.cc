#include "ops/registry.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "build_parts.h"
#include "ops/compressed/compressed_backend.h"
#include "ops/gloo/gloo_backend.h"
#include "ops/hierarchical/hierarchical_backend.h"
#include "ops/mpi/mpi_backend.h"
#include "ops/nccl/nccl_backend.h"
#include "ops/shm/shm_backend.h"
#include "ops/tcp/tcp_backend.h"

namespace dabke::ops {
namespace {

bool is_on_one_host(const World& world) {
  return std::ranges::all_of(world.hosts, [&](const auto& host) { return host == world.hosts.front(); });
}

/// The values of DABKE_CPU_OPERATIONS that this build supports.
std::vector<std::string_view> host_backends_built() {
  std::vector<std::string_view> names;
  for (const BuildPart& part : kBackends) {
    if (part.is_built && !part.is_for_devices) names.push_back(part.name);
  }
  return names;
}

/// The error if the user asked for one backend by name and the job has no use for it.
Status no_use_of(std::string_view name, std::string_view why) {
  return {Code::unsupported, fmt::format("DABKE_CPU_OPERATIONS={}: {}; leave the variable unset", name, why)};
}

}  // namespace

bool is_backend_built(std::string_view name) { return is_built(kBackends, name); }

Result<std::vector<std::unique_ptr<Backend>>> make_host_backends(const BackendContext& context) {
  const std::string& asked = context.config.cpu_operations;
  const bool is_alone = context.world.size == 1;
  const bool any = asked == "auto";
  const bool by_hosts = any || asked == "hierarchical";
  const bool by_tcp = by_hosts || asked == "tcp";
  const bool by_gloo = by_tcp || asked == "gloo";
  const bool by_mpi = asked == "mpi";
  // MPI by name means MPI between the hosts: inside a host it is far slower.
  const bool by_mpi_between = by_mpi && !is_on_one_host(context.world);

  // Backends of which others are composed come first. A null pointer means that this rank has no use for the
  // backend.
  std::unique_ptr<Backend> shm, mpi, tcp, gloo, compressed, hierarchical;
  if (by_hosts || asked == "shm" || by_mpi_between) {
    DABKE_ASSIGN_OR_RETURN(shm, open_shm_backend(context));
  }
  if (by_mpi) {
    DABKE_ASSIGN_OR_RETURN(mpi, open_mpi_backend(context));
  }
  if (by_tcp) {
    DABKE_ASSIGN_OR_RETURN(tcp, open_tcp_backend(context));
  }
  if (by_gloo) {
    DABKE_ASSIGN_OR_RETURN(gloo, open_gloo_backend(context));
  }
  if (by_gloo || by_mpi_between) {
    DABKE_ASSIGN_OR_RETURN(compressed, open_compressed_backend(context, {mpi.get(), tcp.get(), gloo.get()}));
  }
  if (by_hosts || by_mpi_between) {
    DABKE_ASSIGN_OR_RETURN(
        hierarchical,
        open_hierarchical_backend(context, {shm.get(), compressed.get(), mpi.get(), tcp.get(), gloo.get()}));
  }
  if (asked == "shm" && shm == nullptr && !is_alone)
    return no_use_of(asked, "this rank shares memory with no other rank");
  if (asked == "hierarchical" && hierarchical == nullptr && !is_alone)
    return no_use_of(asked, "the job is on one host, or no host has more than one of its ranks");

  // The order of preference.
  std::vector<std::unique_ptr<Backend>> backends;
  for (auto* const backend : {&shm, &hierarchical, &compressed, &tcp, &gloo, &mpi}) {
    if (*backend != nullptr) backends.push_back(std::move(*backend));
  }
  const auto built = host_backends_built();
  if (backends.empty() && is_alone && std::ranges::count(built, asked) != 0) {
    // A single rank has no data to exchange, so any backend of the build serves it.
    DABKE_ASSIGN_OR_RETURN(gloo, open_gloo_backend(context));
    backends.push_back(std::move(gloo));
  }
  if (!backends.empty()) return backends;
  return Status(Code::not_built, fmt::format("DABKE_CPU_OPERATIONS={}: this build has no such backend; "
                                             "choose one of {}, or leave the variable unset.",
                                             asked, fmt::join(built, ", ")));
}

Result<Backends> make_backends(const BackendContext& context) {
  Backends backends;
  DABKE_ASSIGN_OR_RETURN(backends.host, make_host_backends(context));
  if (is_backend_built("nccl")) {
    DABKE_ASSIGN_OR_RETURN(auto nccl, open_nccl_backend(context));
    backends.device.push_back(std::move(nccl));
  }
  return backends;
}

DeviceRoute device_route(const BackendContext& context) {
  const DeviceRoute route = route_of(context.config.gpu_operations);
  if (route != DeviceRoute::direct) return route;
  return mpi_takes_device_memory(context) ? DeviceRoute::direct : DeviceRoute::host;
}

OpenDevice device_opener(const Config& config, const Environment& environment) {
  return is_backend_built("nccl") ? cuda_devices(config, environment) : OpenDevice();
}

}  // namespace dabke::ops

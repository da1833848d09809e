#include "ops/registry.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "build_parts.h"
#include "ops/compression/compressed_backend.h"
#include "ops/gloo/gloo_backend.h"
#include "ops/hierarchical/hierarchical_backend.h"
#include "ops/mpi/mpi_backend.h"
#include "ops/shm/shm_backend.h"
#include "ops/tcp/tcp_backend.h"

namespace dabke {
namespace {

std::vector<std::string_view> built_backends() {
  std::vector<std::string_view> names;
  for (const BuildPart& part : kBackends) {
    if (part.is_built) names.push_back(part.name);
  }
  return names;
}

}  // namespace

bool is_backend_built(std::string_view name) { return is_built(kBackends, name); }

Result<std::vector<std::unique_ptr<Backend>>> make_backends(const BackendContext& context) {
  const std::string& wanted = context.config.cpu_operations;
  const auto wants = [&wanted](std::string_view name) { return wanted == "auto" || wanted == name; };
  const bool is_alone = context.world.size == 1;
  const std::vector<std::string>& hosts = context.world.hosts;
  const bool several_hosts =
      std::ranges::any_of(hosts, [&](const auto& host) { return host != hosts.front(); });
  // MPI by name means between the hosts; inside one it is by far the slower.
  const bool by_hosts = !is_alone && (wants("hierarchical") || (wanted == "mpi" && several_hosts));
  std::unique_ptr<Backend> mpi, shm, hierarchical, compressed, tcp, gloo;
  if (wanted == "mpi") {  // by name only: opening it needs a module, and a job that MPI has started
    DABKE_ASSIGN_OR_RETURN(mpi, open_mpi_backend(context));
  }
  if (wants("shm") || by_hosts) {
    DABKE_ASSIGN_OR_RETURN(shm, open_shm_backend(context));
    if (!shm && wanted == "shm" && !is_alone) {
      return Status(
          Code::unsupported,
          "DABKE_CPU_OPERATIONS=shm: this rank shares memory with no other; leave the variable unset");
    }
  }
  if (wants("tcp") || (by_hosts && wanted != "mpi")) {
    DABKE_ASSIGN_OR_RETURN(tcp, open_tcp_backend(context));
  }
  // What is too large for tcp is Gloo's. A single rank has nothing to share, and whatever is there serves it.
  if (wants("gloo") || wanted == "tcp" || wanted == "hierarchical" || (wanted == "shm" && is_alone))
    gloo = std::make_unique<GlooBackend>(context);
  compressed = open_compressed_backend(context, {mpi.get(), tcp.get(), gloo.get()});
  if (by_hosts) {
    DABKE_ASSIGN_OR_RETURN(
        hierarchical,
        open_hierarchical_backend(context, shm.get(), {compressed.get(), mpi.get(), tcp.get(), gloo.get()}));
    if (!hierarchical && wanted == "hierarchical") {
      return Status(
          Code::unsupported,
          "DABKE_CPU_OPERATIONS=hierarchical: the job is on one host, or no host has more than one of "
          "its ranks; leave the variable unset");
    }
  }

  // The order of preference: the first that can run a response does.
  std::vector<std::unique_ptr<Backend>> backends;
  for (auto* const backend : {&shm, &hierarchical, &compressed, &mpi, &tcp, &gloo}) {
    if (*backend) backends.push_back(std::move(*backend));
  }
  if (!backends.empty()) return backends;
  return Status(
      Code::not_built,
      fmt::format(
          "DABKE_CPU_OPERATIONS={}: this build has no such backend; it has {}. Choose one of them, or "
          "leave the variable unset.",
          wanted, fmt::join(built_backends(), ", ")));
}

}  // namespace dabke

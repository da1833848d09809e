#include <fmt/format.h>

#include "ops/collective.h"
#include "ops/gloo/gloo_backend.h"
#include "ops/mpi/mpi_backend.h"

namespace dabke {

Result<std::vector<std::unique_ptr<Collective>>> make_backends(const BackendContext& context) {
  // In order of preference: the first that can run a response does.
  std::vector<std::unique_ptr<Collective>> backends;
  const std::string& wanted = context.config.cpu_operations;
  if (wanted == "mpi") {  // by name only: opening it needs a module, and a job that MPI has started
    DABKE_ASSIGN(auto backend, open_mpi_backend(context));
    backends.push_back(std::move(backend));
  }
  backends.push_back(std::make_unique<GlooBackend>(context));

  if (wanted == "auto") return backends;
  std::string names;
  for (const auto& backend : backends) names += (names.empty() ? "" : ", ") + std::string(backend->name());
  std::erase_if(backends, [&](const auto& backend) { return backend->name() != wanted; });
  if (!backends.empty()) return backends;
  return Status(
      Code::not_built,
      fmt::format("DABKE_CPU_OPERATIONS={}: this build has no such backend; it has {}. Choose one of "
                  "them, or leave the variable unset.",
                  wanted, names));
}

}  // namespace dabke

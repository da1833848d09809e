#include "ops/registry.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "build_parts.h"
#include "ops/backend_factories.h"

namespace dabke {
namespace {

/// The names of a list with commas.
std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    names.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

/// Opens the backends that DABKE_CPU_OPERATIONS asks for, each after those that it is put together from.
class Opening {
 public:
  explicit Opening(const BackendContext& context)
      : context_(context), wanted_(context.config.cpu_operations) {}

  Status open(const BackendRow& row) {
    const auto [place, is_first] = opened_.try_emplace(row.name);
    const auto factory = std::ranges::find(kFactories, row.name, &BackendFactory::name);
    if (!is_first || !is_wanted(row) || factory == std::ranges::end(kFactories)) return {};
    std::vector<Backend*> over;
    for (const std::string_view name : names_in(row.over)) {
      DABKE_RETURN_IF_ERROR(open(*std::ranges::find(kBackendRows, name, &BackendRow::name)));
      over.push_back(opened_[name].get());
    }
    DABKE_ASSIGN_OR_RETURN(place->second, factory->open(context_, std::move(over)));
    if (place->second || row.name != wanted_ || is_alone()) return {};
    return {Code::unsupported,
            fmt::format("DABKE_CPU_OPERATIONS={}: {}; leave the variable unset", wanted_, factory->why_not)};
  }

  std::vector<std::unique_ptr<Backend>> take() {
    std::vector<std::unique_ptr<Backend>> backends;
    for (const BackendRow& row : kBackendRows) {
      if (auto& backend = opened_[row.name]) backends.push_back(std::move(backend));
    }
    return backends;
  }

  bool is_alone() const { return context_.world.size == 1; }

 private:
  bool is_wanted(const BackendRow& row) const {
    const std::vector<std::string>& hosts = context_.world.hosts;
    const bool one_host = std::ranges::all_of(hosts, [&](const auto& host) { return host == hosts.front(); });
    // MPI by name means between the hosts; inside one it is by far the slower.
    if (wanted_ == "mpi" && one_host) return row.name == wanted_;
    return std::ranges::count(names_in(row.opened_for), wanted_) != 0;
  }

  const BackendContext& context_;
  const std::string& wanted_;
  std::map<std::string_view, std::unique_ptr<Backend>> opened_;
};

/// The backends of this build that DABKE_CPU_OPERATIONS may name.
std::vector<std::string_view> host_backends() {
  std::vector<std::string_view> names;
  for (const BackendRow& row : kBackendRows) {
    if (is_backend_built(row.name) && std::ranges::count(names_in(row.opened_for), row.name) != 0)
      names.push_back(row.name);
  }
  return names;
}

}  // namespace

bool is_backend_built(std::string_view name) { return is_built(kBackends, name); }

Result<std::vector<std::unique_ptr<Backend>>> make_backends(const BackendContext& context) {
  const std::string& wanted = context.config.cpu_operations;
  Opening opening(context);
  for (const BackendRow& row : kBackendRows) DABKE_RETURN_IF_ERROR(opening.open(row));
  auto backends = opening.take();
  const auto built = host_backends();
  if (backends.empty() && opening.is_alone() && std::ranges::count(built, wanted) != 0) {
    // A single rank has nothing to share, and whatever is there serves it.
    DABKE_ASSIGN_OR_RETURN(auto any, open_gloo_backend(context));
    backends.push_back(std::move(any));
  }
  if (!backends.empty()) return backends;
  return Status(
      Code::not_built,
      fmt::format(
          "DABKE_CPU_OPERATIONS={}: this build has no such backend; it has {}. Choose one of them, or "
          "leave the variable unset.",
          wanted, fmt::join(built, ", ")));
}

Result<std::vector<std::unique_ptr<Backend>>> make_all_backends(const BackendContext& context) {
  DABKE_ASSIGN_OR_RETURN(auto backends, make_backends(context));
  if (is_backend_built("nccl")) {
    DABKE_ASSIGN_OR_RETURN(auto nccl, open_nccl_backend(context));
    backends.push_back(std::move(nccl));
  }
  return backends;
}

OpenDevice device_opener(const Config& config, const Environment& environment) {
  return is_backend_built("nccl") ? cuda_devices(config, environment) : OpenDevice();
}

}  // namespace dabke

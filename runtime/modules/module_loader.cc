#include "runtime/modules/module_loader.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "runtime/base/threads/signal_keeper.h"
#include "runtime/modules/build_id.h"

namespace dabke::modules {
namespace {

/// One row per MPI: its module, the library to which an application is linked, the variable that its launcher
/// sets, and its packages.
struct Flavour {
  std::string_view module;
  std::string_view name;
  std::string_view library;  // the beginning of its file name
  std::string_view other_library;
  std::string_view variable;  // its value is the number of ranks
  std::string_view build_package;
  std::string_view run_package;
};
constexpr std::array kFlavours = {
    Flavour{"mpi-openmpi", "Open MPI", "libmpi.so.40", "libmpi.so.40", "OMPI_COMM_WORLD_SIZE",
            "libopenmpi-dev", "openmpi-bin"},
    Flavour{"mpi-mpich", "MPICH", "libmpich.so", "libmpi.so.12", "PMI_SIZE", "libmpich-dev", "mpich"},
};

constexpr HostServices kHost;

/// Searches the files that are loaded into this process for a library of MPI.
struct Loaded {
  const Flavour* flavour = nullptr;
  std::string path;
};
int look_at(dl_phdr_info* info, std::size_t, void* context) {
  auto& found = *static_cast<Loaded*>(context);
  const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const Flavour& flavour : kFlavours) {
    if (!file.starts_with(flavour.library) && !file.starts_with(flavour.other_library)) continue;
    found = {&flavour, std::string(path)};
    return 1;
  }
  return 0;
}

bool asks_yes(void* library, const char* function) {
  using Ask = int(int*);
  auto* const ask = reinterpret_cast<Ask*>(::dlsym(library, function));
  int yes = 0;
  return ask != nullptr && ask(&yes) == 0 && yes != 0;
}

std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&load_module), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::string() : path.parent_path().string();
}

const Flavour* flavour_of(std::string_view module) {
  for (const Flavour& flavour : kFlavours) {
    if (flavour.module == module) return &flavour;
  }
  return nullptr;
}

}  // namespace

MpiTraces find_mpi(const Environment& environment) {
  MpiTraces traces;
  Loaded loaded;
  ::dl_iterate_phdr(look_at, &loaded);
  if (loaded.flavour != nullptr) {
    traces.loaded = loaded.flavour->module;
    if (void* library = ::dlopen(loaded.path.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
      traces.is_initialised = asks_yes(library, "MPI_Initialized") && !asks_yes(library, "MPI_Finalized");
      ::dlclose(library);
    }
  }
  for (const Flavour& flavour : kFlavours) {
    const std::string name(flavour.variable);
    const auto value = environment(name);
    if (!value || value->empty()) continue;
    traces.launcher = flavour.module;
    traces.variable = name;
    break;
  }
  return traces;
}

Result<const ModuleTable*> load_module(const Config& config, std::string_view name) {
  const std::string folder = config.module_path.empty() ? own_folder() + "/dabke" : config.module_path;
  const std::string path = fmt::format("{}/{}.so", folder, name);
  const Flavour* const flavour = flavour_of(name);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && flavour == nullptr) {
    return Status(
        Code::not_built,
        fmt::format("module {} not found: this build has no {}; install the CUDA Toolkit and build again "
                    "with -Dcuda=enabled, or set DABKE_MODULE_PATH to the folder of the modules",
                    path, name));
  }
  if (!std::filesystem::exists(path, error)) {
    return Status(
        Code::not_built,
        fmt::format("module {} not found: this build has no {}; install the Debian package {} and build "
                    "Dabke again with -Dmpi=enabled, or set DABKE_MODULE_PATH to the folder of the modules",
                    path, flavour->name, flavour->build_package));
  }
  // Never closed, because threads and exit handlers of the vendor's library may stay in it.
  void* const handle = [&] {
    const SignalKeeper application;
    return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }();
  if (handle == nullptr) {
    return Status(Code::not_built, fmt::format("{}; install the Debian package {}", ::dlerror(),
                                               flavour ? flavour->run_package : "that has this library"));
  }
  auto* const entry = reinterpret_cast<ModuleEntry*>(::dlsym(handle, kModuleEntry));
  if (entry == nullptr)
    return Status(Code::mismatch,
                  fmt::format("{} is not a module of Dabke: it has no {}", path, kModuleEntry));
  const ModuleTable* const table = entry(kModuleAbi, kBuildId, &kHost);
  if (table == nullptr || table->abi != kModuleAbi || table->build_id == nullptr ||
      std::string_view(table->build_id) != kBuildId) {
    return Status(
        Code::mismatch,
        fmt::format("{} belongs to build '{}', but this library to build '{}'; install both from one build",
                    path, table != nullptr && table->build_id != nullptr ? table->build_id : "unknown",
                    kBuildId));
  }
  return table;
}

Result<MpiSession*> load_mpi(const Config& config, const MpiTraces& traces) {
  const std::string_view wanted = traces.loaded.empty() ? traces.launcher : traces.loaded;
  if (!wanted.empty()) {
    DABKE_ASSIGN_OR_RETURN(const ModuleTable* const table, load_module(config, wanted));
    return table->mpi;
  }
  std::string reasons;
  for (const Flavour& flavour : kFlavours) {
    const auto table = load_module(config, flavour.module);
    if (table) return (*table)->mpi;
    reasons += (reasons.empty() ? "" : "; ") + table.status().message();
  }
  return Status(Code::not_built, reasons);
}

}  // namespace dabke::modules

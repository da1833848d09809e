// What the module exports (runtime/modules/module.h).
#include <cstdlib>
#include <string_view>

#include "ops/mpi/mpi_process.h"
#include "runtime/modules/build_id.h"
#include "runtime/modules/module.h"

namespace {

// MPI is one for the whole process, and so is this. Never destroyed: threads of a job that was not shut down
// may still be in it when the process ends.
dabke::MpiProcess& the_process() {
  static dabke::MpiProcess& process = [&]() -> dabke::MpiProcess& {
    auto* made = new dabke::MpiProcess;
    std::atexit([] { the_process().finalize(); });
    return *made;
  }();
  return process;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const dabke::ModuleTable* dabke_module(
    std::uint32_t abi, const char* build_id, const dabke::HostServices*) {
  static dabke::ModuleTable table{dabke::kModuleAbi, dabke::kBuildId, nullptr, nullptr};
  if (abi == dabke::kModuleAbi && std::string_view(build_id) == dabke::kBuildId) table.mpi = &the_process();
  return &table;
}

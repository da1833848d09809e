// The function that the module exports (runtime/modules/module.h).
#include <cstdlib>
#include <string_view>

#include "ops/mpi/mpi_process.h"
#include "runtime/modules/build_id.h"
#include "runtime/modules/module.h"

namespace {

// The MPI of the process, and therefore one object for the whole process. Never destroyed: threads of a job
// that was not shut down may still use it when the process ends.
dabke::ops::MpiProcess& the_process() {
  static dabke::ops::MpiProcess& process = [&]() -> dabke::ops::MpiProcess& {
    auto* made = new dabke::ops::MpiProcess;
    std::atexit([] { the_process().finalize(); });
    return *made;
  }();
  return process;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const dabke::modules::ModuleTable* dabke_module(
    std::uint32_t abi, const char* build_id, const dabke::modules::HostServices*) {
  static dabke::modules::ModuleTable table{dabke::modules::kModuleAbi, dabke::modules::kBuildId, nullptr,
                                           nullptr};
  if (abi == dabke::modules::kModuleAbi && std::string_view(build_id) == dabke::modules::kBuildId)
    table.mpi = &the_process();
  return &table;
}

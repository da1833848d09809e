// The function that the module exports (runtime/modules/module.h).
#include <string_view>

#include "ops/nccl/nccl_process.h"
#include "runtime/modules/build_id.h"
#include "runtime/modules/module.h"

namespace {

// The driver and NCCL of the process, and therefore one object for the whole process. Never destroyed: the
// device may still use memory that this object keeps.
dabke::ops::NcclProcess& the_process() {
  static dabke::ops::NcclProcess& process = *new dabke::ops::NcclProcess;
  return process;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const dabke::modules::ModuleTable* dabke_module(
    std::uint32_t abi, const char* build_id, const dabke::modules::HostServices*) {
  // Constant, because lanes of several jobs in a process may call at the same time.
  static const dabke::modules::ModuleTable ours{dabke::modules::kModuleAbi, dabke::modules::kBuildId, nullptr,
                                                &the_process()};
  static const dabke::modules::ModuleTable of_another_build{dabke::modules::kModuleAbi,
                                                            dabke::modules::kBuildId, nullptr, nullptr};
  const bool is_ours =
      abi == dabke::modules::kModuleAbi && std::string_view(build_id) == dabke::modules::kBuildId;
  return is_ours ? &ours : &of_another_build;
}

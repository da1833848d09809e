// What the module exports (runtime/modules/module.h).
#include <string_view>

#include "ops/nccl/nccl_process.h"
#include "runtime/modules/build_id.h"
#include "runtime/modules/module.h"

namespace {

// The driver and NCCL are one for the whole process, and so is this. Never destroyed: the device may still use what
// it keeps.
dabke::NcclProcess& the_process() {
  static dabke::NcclProcess& process = *new dabke::NcclProcess;
  return process;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const dabke::ModuleTable* dabke_module(
    std::uint32_t abi, const char* build_id, const dabke::HostServices*) {
  // Constant: lanes of several jobs in a process ask for it at once.
  static const dabke::ModuleTable ours{dabke::kModuleAbi, dabke::kBuildId, nullptr, &the_process()};
  static const dabke::ModuleTable of_another_build{dabke::kModuleAbi, dabke::kBuildId, nullptr, nullptr};
  const bool is_ours = abi == dabke::kModuleAbi && std::string_view(build_id) == dabke::kBuildId;
  return is_ours ? &ours : &of_another_build;
}

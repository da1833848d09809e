// What the module exports (runtime/transport/module.h).
#include <string_view>

#include "ops/nccl/nccl_process.h"
#include "runtime/transport/build_id.h"
#include "runtime/transport/module.h"

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
  static dabke::ModuleTable table{dabke::kModuleAbi, dabke::kBuildId, nullptr, nullptr};
  if (abi == dabke::kModuleAbi && std::string_view(build_id) == dabke::kBuildId) table.nccl = &the_process();
  return &table;
}

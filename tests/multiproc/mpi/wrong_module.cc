// A module of another build.
#include "runtime/modules/module.h"

extern "C" __attribute__((visibility("default"))) const dabke::modules::ModuleTable* dabke_module(
    std::uint32_t, const char*, const dabke::modules::HostServices*) {
  static const dabke::modules::ModuleTable table{dabke::modules::kModuleAbi, "another build", nullptr};
  return &table;
}

// A module that was built with something else.
#include "runtime/modules/module.h"

extern "C" __attribute__((visibility("default"))) const dabke::ModuleTable* dabke_module(
    std::uint32_t, const char*, const dabke::HostServices*) {
  static const dabke::ModuleTable table{dabke::kModuleAbi, "another build", nullptr};
  return &table;
}

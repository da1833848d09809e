// The border between libdabke.so and a vendor's module, which is in $libdir/dabke/ and is loaded when it is
// first needed.
//
// A module exports one C function, `dabke_module`. Both sides come from one build: the build id is compared
// before anything else is used. So C++ may cross the border (abstract classes, strings), but no exception and
// no RTTI.
#pragma once

#include <cstdint>

namespace dabke::ops {
class NcclSession;
}

namespace dabke::modules {

class MpiSession;

inline constexpr std::uint32_t kModuleAbi = 2;

/// The services of the library for a module. It lives as long as the process.
struct HostServices {
  std::uint32_t abi = kModuleAbi;
};

/// The result of `dabke_module`. The first two members are the same in every version.
struct ModuleTable {
  std::uint32_t abi;
  const char* build_id;
  // The session that the module provides, which lives as long as the process. Null: the module provides the
  // other one, or the build ids differ.
  MpiSession* mpi;
  ops::NcclSession* nccl;
};

using ModuleEntry = const ModuleTable*(std::uint32_t abi, const char* build_id, const HostServices* host);
inline constexpr char kModuleEntry[] = "dabke_module";

}  // namespace dabke::modules

// The border between libdabke.so and a vendor's module, which lies in $libdir/dabke/ and is loaded when first
// needed.
//
// A module exports one C function, `dabke_module`. Both sides come out of one build: the build id is compared
// before anything else is touched, so what crosses may be C++ (abstract classes, strings). No exception and
// no RTTI crosses.
#pragma once

#include <cstdint>

namespace dabke::ops {
class NcclSession;
}

namespace dabke::modules {

class MpiSession;

inline constexpr std::uint32_t kModuleAbi = 2;

/// What a module may ask of the library. It lives as long as the process.
struct HostServices {
  std::uint32_t abi = kModuleAbi;
};

/// What `dabke_module` returns. The first two members stay what they are in every version.
struct ModuleTable {
  std::uint32_t abi;
  const char* build_id;
  // What the module is for; it lives as long as the process. Null: for the other, or the build ids differ.
  MpiSession* mpi;
  ops::NcclSession* nccl;
};

using ModuleEntry = const ModuleTable*(std::uint32_t abi, const char* build_id, const HostServices* host);
inline constexpr char kModuleEntry[] = "dabke_module";

}  // namespace dabke::modules

// Names frames by the dynamic linker's tables, which have exported functions only. Finds no callers.
#include <dlfcn.h>

#include "runtime/diagnosis/stacks/frame_names.h"
#include "runtime/diagnosis/stacks/frames.h"

namespace dabke::diagnosis {

struct Frames::Program {};

Frames::Frames() = default;
Frames::~Frames() = default;

std::vector<void*> Frames::unwind(const UserRegisters& registers, const ReadWord&) const {
  return {reinterpret_cast<void*>(registers.pc)};
}

std::vector<std::string> Frames::describe(const std::vector<void*>& addresses) const {
  std::vector<std::string> out;
  for (void* const address : addresses) {
    Dl_info info{};
    if (::dladdr(address, &info) == 0) info = {};
    const auto offset =
        reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    out.push_back(frame_text(info.dli_sname, "", info.dli_fname != nullptr ? info.dli_fname : "", offset));
  }
  return out;
}

}  // namespace dabke::diagnosis

// Names frames by what the dynamic linker knows: exported functions only.
#include <dlfcn.h>

#include "runtime/diagnosis/frame_names.h"
#include "runtime/diagnosis/native_stacks.h"

namespace dabke {

std::vector<std::string> describe_frames(const std::vector<void*>& addresses) {
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

}  // namespace dabke

// Names frames by libdw: functions by symbol tables, lines by debugging information where the file has it.
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include "runtime/diagnosis/frame_names.h"
#include "runtime/diagnosis/native_stacks.h"

namespace dabke {
namespace {

/// What the files themselves hold is enough: looking elsewhere may ask a server.
int no_other_file(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                  char**) {
  return -1;
}

struct EndDwfl {
  void operator()(Dwfl* dwfl) const { ::dwfl_end(dwfl); }
};

std::string source_of(Dwfl_Module* module, Dwarf_Addr address) {
  Dwfl_Line* const line = ::dwfl_module_getsrc(module, address);
  int number = 0;
  const char* const path =
      line != nullptr ? ::dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr) : nullptr;
  if (path == nullptr) return "";
  const std::string_view file(path);
  const auto slash = file.rfind('/');
  return fmt::format("{}:{}", slash == std::string_view::npos ? file : file.substr(slash + 1), number);
}

}  // namespace

std::vector<std::string> describe_frames(const std::vector<void*>& addresses) {
  const Dwfl_Callbacks callbacks{::dwfl_linux_proc_find_elf, no_other_file, nullptr, nullptr};
  const std::unique_ptr<Dwfl, EndDwfl> dwfl(::dwfl_begin(&callbacks));
  const bool is_mapped = dwfl && ::dwfl_linux_proc_report(dwfl.get(), ::getpid()) == 0 &&
                         ::dwfl_report_end(dwfl.get(), nullptr, nullptr) == 0;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    // Of the callers it is the address behind the call, which may belong to the next line, or function.
    const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(addresses[i]) - (i == 0 ? 0 : 1);
    Dwfl_Module* const module = is_mapped ? ::dwfl_addrmodule(dwfl.get(), address) : nullptr;
    if (module == nullptr) {
      out.push_back(frame_text(nullptr, "", "", address));
      continue;
    }
    Dwarf_Addr start = 0;
    const char* const file =
        ::dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
    out.push_back(frame_text(::dwfl_module_addrname(module, address), source_of(module, address),
                             file != nullptr ? file : "", address - start));
  }
  return out;
}

}  // namespace dabke

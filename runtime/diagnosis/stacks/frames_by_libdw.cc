// Finds and names frames by libdw: callers by call frame information, functions by symbol tables, and lines
// by debugging information if the file has it.
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <unordered_map>

#include "runtime/diagnosis/stacks/frame_names.h"
#include "runtime/diagnosis/stacks/frames.h"

namespace dabke::diagnosis {

struct EndDwfl {
  void operator()(Dwfl* dwfl) const { ::dwfl_end(dwfl); }
};

/// The stack that is unwound; one at a time.
struct UnwoundStack {
  const UserRegisters* registers = nullptr;
  const ReadWord* read = nullptr;
  std::vector<void*> found;
};

namespace {

constexpr std::size_t kMostUnwound = 64;
#if defined(__aarch64__)
constexpr int kStackPointerRegister = 31;
#else
constexpr int kStackPointerRegister = 7;  // x86-64's; on other machines libdw refuses it
#endif

/// The files themselves hold enough, and a search for others may ask a server.
int no_other_file(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                  char**) {
  return -1;
}

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

// libdw unwinds the threads that these functions return: here one thread, which has this process's number.
constexpr Dwfl_Thread_Callbacks kOneThread = {
    .next_thread = [](Dwfl*, void* stack, void** thread) -> pid_t {
      if (*thread != nullptr) return 0;
      *thread = stack;
      return ::getpid();
    },
    .get_thread =
        [](Dwfl*, pid_t, void* stack, void** thread) {
          *thread = stack;
          return true;
        },
    .memory_read =
        [](Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* stack) {
          std::uint64_t value = 0;
          if (!(*static_cast<UnwoundStack*>(stack)->read)(address, value)) return false;
          *word = value;
          return true;
        },
    .set_initial_registers =
        [](Dwfl_Thread* thread, void* stack) {
          const UserRegisters& known = *static_cast<UnwoundStack*>(stack)->registers;
          const Dwarf_Word sp = known.sp;
          if (!::dwfl_thread_state_registers(thread, kStackPointerRegister, 1, &sp)) return false;
          for (const auto& [number, value] : known.others) {
            const Dwarf_Word word = value;
            if (!::dwfl_thread_state_registers(thread, static_cast<int>(number), 1, &word)) return false;
          }
          ::dwfl_thread_state_register_pc(thread, known.pc);
          return true;
        },
    .detach = nullptr,
    .thread_detach = nullptr,
};

int take_frame(Dwfl_Frame* frame, void* stack) {
  std::vector<void*>& found = static_cast<UnwoundStack*>(stack)->found;
  Dwarf_Addr pc = 0;
  if (!::dwfl_frame_pc(frame, &pc, nullptr) || pc == 0) return DWARF_CB_ABORT;
  found.push_back(reinterpret_cast<void*>(pc));
  return found.size() < kMostUnwound ? DWARF_CB_OK : DWARF_CB_ABORT;
}

}  // namespace

struct Frames::Program {
  Dwfl_Callbacks callbacks{::dwfl_linux_proc_find_elf, no_other_file, nullptr, nullptr};
  UnwoundStack stack;
  std::unique_ptr<Dwfl, EndDwfl> dwfl{::dwfl_begin(&callbacks)};
  bool is_mapped = dwfl && ::dwfl_linux_proc_report(dwfl.get(), ::getpid()) == 0 &&
                   ::dwfl_report_end(dwfl.get(), nullptr, nullptr) == 0;
  bool can_unwind = is_mapped && ::dwfl_attach_state(dwfl.get(), nullptr, ::getpid(), &kOneThread, &stack);
  // libdw looks through a file's whole table of symbols for each address: 40 ms for a library with a million.
  // The threads of a pool wait at the same addresses.
  std::unordered_map<Dwarf_Addr, std::string> described;

  std::string describe(Dwarf_Addr address) const {
    Dwfl_Module* const module = is_mapped ? ::dwfl_addrmodule(dwfl.get(), address) : nullptr;
    if (module == nullptr) return frame_text(nullptr, "", "", address);
    Dwarf_Addr start = 0;
    const char* const file =
        ::dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
    return frame_text(::dwfl_module_addrname(module, address), source_of(module, address),
                      file != nullptr ? file : "", address - start);
  }
};

Frames::Frames() : program_(std::make_unique<Program>()) {}
Frames::~Frames() = default;

std::vector<void*> Frames::unwind(const UserRegisters& registers, const ReadWord& read) const {
  program_->stack = {&registers, &read, {}};
  if (program_->can_unwind)
    (void)::dwfl_getthread_frames(program_->dwfl.get(), ::getpid(), take_frame, &program_->stack);
  // The call ends with an error where tables or registers do not lead on. The frames
  // found until then are valid.
  std::vector<void*> found = std::move(program_->stack.found);
  if (found.empty()) found.push_back(reinterpret_cast<void*>(registers.pc));
  return found;
}

std::vector<std::string> Frames::describe(const std::vector<void*>& addresses) const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    // A caller's address is the one behind the call, which may belong to the next line or function.
    const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(addresses[i]) - (i == 0 ? 0 : 1);
    std::string& text = program_->described[address];
    if (text.empty()) text = program_->describe(address);
    out.push_back(text);
  }
  return out;
}

}  // namespace dabke::diagnosis

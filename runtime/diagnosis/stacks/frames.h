// The frames of a stack: found by the program's own unwinding tables, and named by its symbols. No thread is
// touched; one object reads the program's files once for many stacks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dabke::diagnosis {

/// A thread's registers, as far as they are known.
struct UserRegisters {
  std::uintptr_t pc = 0;
  std::uintptr_t sp = 0;
  std::vector<std::pair<unsigned, std::uint64_t>> others;  // by DWARF's numbers
};

/// The word at an address; false when it cannot be read.
using ReadWord = std::function<bool(std::uintptr_t address, std::uint64_t& word)>;

class Frames {
 public:
  Frames();
  ~Frames();
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;

  /// The program counters of a stack, innermost first: as many as the tables and the registers lead to, the
  /// first one always.
  std::vector<void*> unwind(const UserRegisters& registers, const ReadWord& read) const;
  /// "step() at train.cc:42 (train)", as far as the program's files tell.
  std::vector<std::string> describe(const std::vector<void*>& addresses) const;

 private:
  struct Program;
  const std::unique_ptr<Program> program_;
};

}  // namespace dabke::diagnosis

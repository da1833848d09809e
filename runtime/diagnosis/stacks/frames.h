// The frames of a stack: found by the program's own unwinding tables, and named by its symbols. This does not
// disturb any thread. One object reads the program's files once for many stacks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dabke::diagnosis {

/// The registers of a thread that are known.
struct UserRegisters {
  std::uintptr_t pc = 0;
  std::uintptr_t sp = 0;
  std::vector<std::pair<unsigned, std::uint64_t>> others;  // by DWARF's numbers
};

/// Reads the word at an address; returns false if it cannot be read.
using ReadWord = std::function<bool(std::uintptr_t address, std::uint64_t& word)>;

class Frames {
 public:
  Frames();
  ~Frames();
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;

  /// Returns the program counters of a stack, innermost first. There are as many as the tables and registers
  /// lead to, but always the first.
  std::vector<void*> unwind(const UserRegisters& registers, const ReadWord& read) const;
  /// Returns texts such as "step() at train.cc:42 (train)", as complete as the program's files allow.
  std::vector<std::string> describe(const std::vector<void*>& addresses) const;

 private:
  struct Program;
  const std::unique_ptr<Program> program_;
};

}  // namespace dabke::diagnosis

// A terminal for a test to sit at: the program under test has one end, the test types and reads at the other.
#pragma once

#include <string>

#include "runtime/base/threads/owned.h"

namespace dabke::test {

class Terminal {
 public:
  Terminal();

  /// The path for the program to open.
  const std::string& path() const { return path_; }
  void type(const std::string& text) const;
  /// What is in the foreground there gets SIGWINCH.
  void resize(int rows, int columns) const;
  /// Reads what the program writes until `text` is in it; false when 60 s are over or nobody has it open any
  /// more.
  bool wait_for(const std::string& text);
  /// All that has been read.
  const std::string& shown() const { return shown_; }
  /// Makes wait_for() look only at what comes from now on.
  void forget() { shown_.clear(); }

 private:
  Fd end_;
  std::string path_;
  std::string shown_;
};

}  // namespace dabke::test

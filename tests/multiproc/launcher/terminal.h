// A terminal for tests. The program under test has one end; the test types and reads at the other.
#pragma once

#include <string>

#include "runtime/base/threads/owned.h"

namespace dabke::test {

class Terminal {
 public:
  Terminal();

  /// The path that the program must open.
  const std::string& path() const { return path_; }
  void type(const std::string& text) const;
  /// Changes the size; processes in the foreground get SIGWINCH.
  void resize(int rows, int columns) const;
  /// Reads the program's output until it contains `text`. Returns false after 60 s, or when no process has
  /// the terminal open.
  bool wait_for(const std::string& text);
  /// All output that has been read.
  const std::string& shown() const { return shown_; }
  /// Makes wait_for() search only the output from now on.
  void forget() { shown_.clear(); }

 private:
  Fd end_;
  std::string path_;
  std::string shown_;
};

}  // namespace dabke::test

// The output of the worker, and a watchdog for its progress.
#pragma once

#include <string>

namespace storm {

/// Ends the process with code 1 after one line on stderr, with the seed and the rank in it.
[[noreturn]] void wrong(const std::string& text);

/// Sets the prefix of every line.
void set_speaker(unsigned long long seed, int rank);

/// An operation that should end. While it exists, a hang is reported with its text. Any thread may use it.
class Pending {
 public:
  explicit Pending(std::string text);
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

 private:
  unsigned long long id_;
};

/// Starts the watchdog thread. If no Pending begins or ends for this time, it prints all pending
/// ones and ends the process with code 3.
void start_watchdog(int patience_seconds);

}  // namespace storm

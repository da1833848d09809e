// What the worker says, and who watches that it goes on.
#pragma once

#include <string>

namespace storm {

/// Ends the process with code 1 after one line on stderr, with the seed and the rank in it.
[[noreturn]] void wrong(const std::string& text);

/// What every line begins with.
void set_speaker(unsigned long long seed, int rank);

/// Something that should end. While it exists a hang is told with its text. Any thread.
class Pending {
 public:
  explicit Pending(std::string text);
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

 private:
  unsigned long long id_;
};

/// Starts the thread that ends the process with code 3, and says what is pending, when nothing has begun or
/// ended to be Pending for this time.
void start_watchdog(int patience_seconds);

}  // namespace storm

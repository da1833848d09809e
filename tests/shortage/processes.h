// Ranks as child processes of the test, for cases that would end a process or hang it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/patience.h"

namespace dabke::test {

struct Ended {
  int code = -1;     // 128 + signal if it was killed; -1: it hung, and the test killed it
  std::string said;  // one line for each say()
  bool says(const std::string& text) const { return said.find(text) != std::string::npos; }
};

/// The time that some small jobs may take on a busy machine.
inline constexpr std::chrono::seconds kEndWithin{kSanitized ? 360 : 180};

/// Runs several jobs side by side. Returns the results by job, then by rank.
std::vector<std::vector<Ended>> run_jobs(int jobs, int size,
                                         const std::function<void(int job, int rank)>& body,
                                         std::chrono::seconds limit = kEndWithin);

/// Runs `body(rank)` in a child process for each rank, with the environment that dabke_init needs, and waits
/// for all. The test itself must have no other thread.
std::vector<Ended> run_processes(int size, const std::function<void(int rank)>& body,
                                 std::chrono::seconds limit = kEndWithin);

/// Sends a line to the test. Only a child calls it.
void say(const std::string& line);

/// The number in an environment variable, to run more of something than the default `by_itself`.
int times(const char* variable, int by_itself);

}  // namespace dabke::test

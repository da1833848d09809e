// Ranks as children of the test, for what would end a process or hang it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/patience.h"

namespace dabke::test {

struct Ended {
  int code = -1;     // 128 + signal when killed; -1: it hung, and was killed by the test
  std::string said;  // one line each say()
  bool says(const std::string& text) const { return said.find(text) != std::string::npos; }
};

/// What a busy machine may take for some small jobs.
inline constexpr std::chrono::seconds kEndWithin{kSanitized ? 360 : 180};

/// Several jobs side by side; by job, then by rank.
std::vector<std::vector<Ended>> run_jobs(int jobs, int size,
                                         const std::function<void(int job, int rank)>& body,
                                         std::chrono::seconds limit = kEndWithin);

/// Runs `body(rank)` in a child for each rank, with what dabke_init needs in the environment, and waits for
/// all. The test itself must have no thread.
std::vector<Ended> run_processes(int size, const std::function<void(int rank)>& body,
                                 std::chrono::seconds limit = kEndWithin);

/// Called in a child: writes a line for the test to see.
void say(const std::string& line);

/// A number that the environment may give, to run more of something than the test does by itself.
int times(const char* variable, int by_itself);

}  // namespace dabke::test

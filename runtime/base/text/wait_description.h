// The activity of a rank while others wait for it, in words: the program's errors and dabkerun use the same.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dabke {

struct WaitDescription {
  std::vector<std::string> waits_for;  // operations that it has submitted, such as "allreduce 'b'"; some
  std::size_t waits_for_count = 0;     // the number of all of them
  double waits_s = -1;                 // the length of the first wait; negative: unknown
  std::string inside;    // the operation that it runs, such as "allreduce 'a' (order 4)"; empty: none
  double inside_s = -1;  // since it began; negative: unknown
};

/// "it waits for allreduce 'b' instead, for 58.0 s: ..."; the subject of the sentence is the rank.
std::string describe(const WaitDescription& rank);

/// The text for ranks that are inside different operations.
inline constexpr const char* kDifferentOperations =
    "the ranks are inside different operations, so they wait for each other; the network is not the cause";

/// The state of a process by /proc: "is stopped (SIGSTOP, Ctrl-Z, or a debugger)", "is running", "waits in
/// the kernel (futex_wait_queue)" or "is gone".
std::string process_state(int pid);

}  // namespace dabke

// What a rank does while others wait for it, in words: the same in what the program is told and in what
// dabkerun prints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dabke {

struct WaitDescription {
  std::vector<std::string> waits_for;  // other operations that it has submitted, as "allreduce 'b'"; some
  std::size_t waits_for_count = 0;     // all of them
  double waits_s = -1;                 // the first wait's length; negative: not known
  std::string inside;                  // what it runs, as "allreduce 'a' (order 4)"; empty: nothing
  double inside_s = -1;                // since it began; negative: not known
};

/// "it waits for allreduce 'b' instead, for 58.0 s: ..."; the subject of the sentence is the rank.
std::string describe(const WaitDescription& rank);

/// The text for ranks that are inside different operations.
inline constexpr const char* kDifferentOperations =
    "the ranks are inside different operations, so they wait for each other and not for the network";

/// What /proc says: "is stopped (SIGSTOP, Ctrl-Z, or a debugger)", "is running", "waits in the kernel
/// (futex_wait_queue)", "is gone".
std::string process_state(int pid);

}  // namespace dabke

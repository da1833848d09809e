// What /proc tells of the threads of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dabke::diagnosis {

inline constexpr std::size_t kMostThreads = 32;  // of which a report tells

/// The main thread first. A thread may end at any moment, so its files may be gone.
std::vector<int> threads_of_this_process();

/// The first line of one file in the thread's directory; empty when it cannot be read.
std::string line_of_thread(int thread, const std::string& file);

/// One of the runtime's own: it waits for others, and nobody for it.
bool is_own_thread_name(const std::string& name);

}  // namespace dabke::diagnosis

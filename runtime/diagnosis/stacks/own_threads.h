// The threads of this process, as /proc lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dabke::diagnosis {

inline constexpr std::size_t kMostThreads = 32;  // threads in a report

/// Returns the main thread first. A thread may end at any moment, and its files then disappear.
std::vector<int> threads_of_this_process();

/// Returns the first line of a file in the thread's directory; empty if it cannot be read.
std::string line_of_thread(int thread, const std::string& file);

/// True for a thread of the runtime. Such a thread waits for others, and no thread waits for it.
bool is_own_thread_name(const std::string& name);

}  // namespace dabke::diagnosis

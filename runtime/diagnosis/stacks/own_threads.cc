#include "runtime/diagnosis/stacks/own_threads.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

namespace dabke::diagnosis {

std::vector<int> threads_of_this_process() {
  std::vector<int> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/task"), ::closedir);
  if (directory) {
    while (const dirent* entry = ::readdir(directory.get())) {
      if (const int thread = std::atoi(entry->d_name); thread > 0) threads.push_back(thread);
    }
  }
  // The main thread has the process's number, which is the lowest unless numbers have wrapped.
  std::ranges::sort(threads);
  const auto main = std::ranges::find(threads, ::getpid());
  if (main != threads.end()) std::rotate(threads.begin(), main, main + 1);
  return threads;
}

std::string line_of_thread(int thread, const std::string& file) {
  std::ifstream in("/proc/self/task/" + std::to_string(thread) + "/" + file);
  std::string line;
  std::getline(in, line);
  return line;
}

bool is_own_thread_name(const std::string& name) { return name.starts_with("dabke-"); }

}  // namespace dabke::diagnosis

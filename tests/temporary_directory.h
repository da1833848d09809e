// A directory for the files of one test.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>

namespace dabke::test {

/// A fresh directory. Its owner deletes it with its contents.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((std::filesystem::temp_directory_path() / "dabke-test-XXXXXX").native()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp");
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string text_of(const std::string& name) const {
    std::ifstream in(*this / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Waits until the file `name` exists. Returns the pid that it holds.
  pid_t pid_in(const std::string& name) const {
    for (int i = 0; i < 180'000 && !std::filesystem::exists(*this / name); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::atoi(text_of(name).c_str());
  }
  /// The number of files, in all folders below too.
  std::size_t files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_))
      count += entry.is_regular_file();
    return count;
  }

 private:
  std::string path_;
};

}  // namespace dabke::test

#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace dabke::test {

/// A folder that goes with all that is in it.
class Place {
 public:
  Place() {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  }
  ~Place() { std::filesystem::remove_all(path_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "dabke-test-XXXXXX";
};

}  // namespace dabke::test

#include "scratch.h"

#include <unistd.h>

#include <filesystem>

#include "report.h"

namespace storm {
namespace {

std::filesystem::path folder() {
  return std::filesystem::temp_directory_path() / ("dabke-storm." + std::to_string(::getpid()));
}

}  // namespace

std::string scratch_path(const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(folder(), error);
  if (error) wrong("cannot make " + folder().string() + ": " + error.message());
  return (folder() / name).string();
}

void remove_scratch() {
  std::error_code error;
  std::filesystem::remove_all(folder(), error);
}

}  // namespace storm

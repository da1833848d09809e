#include "benchmarks/perf/jobs/places.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include <fmt/format.h>

namespace dabke::perf {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string program_path() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

std::string program_folder() { return fs::path(program_path()).parent_path().string(); }

std::string module_folder() {
  Dl_info info{};
  // Not &dabke_init, which may be an address in this program.
  if (::dladdr(::dlsym(RTLD_DEFAULT, "dabke_init"), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  return (fs::canonical(info.dli_fname, error).parent_path() / "dabke").string();
}

std::string find_program(std::initializer_list<const char*> names) {
  const char* const path = std::getenv("PATH");
  for (const char* const name : names) {
    std::istringstream folders(path != nullptr ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');)
      if (is_program(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  return {};
}

std::string dabkerun_path() {
  const fs::path own = program_folder();
  for (const fs::path& path : {own / "dabkerun", own / "../../launcher/dabkerun"})
    if (is_program(path)) return path.lexically_normal().string();
  return find_program({"dabkerun"});
}

Result<std::string> model_path(const std::string& name) {
  std::error_code error;
  if (fs::is_regular_file(name, error)) return name;
  const fs::path own = program_folder();
  const std::vector<fs::path> folders = {own / "../share/dabke/models", own / "../models"};
  std::string known;
  for (const fs::path& folder : folders) {
    const fs::path path = folder / (name + ".txt");
    if (fs::is_regular_file(path, error)) return path.lexically_normal().string();
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".txt")
        known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.path().stem().string());
  }
  return Status(
      Code::invalid_argument,
      fmt::format("--model is '{}', which is neither a file nor one of {}; give a file with lines of a "
                  "name and a shape",
                  name, known.empty() ? "the models, of which none is installed" : known));
}

}  // namespace dabke::perf

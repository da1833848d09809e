#include "ops/nccl/nccl_settings.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

namespace dabke::nccl {
namespace {

/// Returns the user's home in the table of users, where NCCL searches. HOME may differ.
std::string home() {
  std::array<char, 4096> memory;
  passwd user{};
  passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &user, memory.data(), memory.size(), &found) != 0 || found == nullptr)
    return "";
  return user.pw_dir;
}

}  // namespace

std::vector<std::string> settings_files(const Environment& environment) {
  std::vector<std::string> files;
  if (const auto named = environment("NCCL_CONF_FILE"); named && !named->empty()) {
    files.push_back(*named);
  } else if (const std::string own = home(); !own.empty()) {
    files.push_back(own + "/.nccl.conf");
  }
  files.emplace_back("/etc/nccl.conf");
  return files;
}

std::optional<Setting> find_setting(const std::string& name, const Environment& environment,
                                    const std::vector<std::string>& files) {
  if (auto value = environment(name)) return Setting{std::move(*value), ""};
  const std::string begin = name + "=";
  for (const std::string& file : files) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with(begin)) return Setting{line.substr(begin.size()), file};
    }
  }
  return std::nullopt;
}

/// Refuses blocking communicators, because every thread of ours that waits for NCCL relies on calls that do
/// not block.
Status refuse_blocking(const Environment& environment, const std::vector<std::string>& files) {
  const auto setting = find_setting("NCCL_COMM_BLOCKING", environment, files);
  // Read as NCCL reads it: it accepts 0x1 and 01 for 1, too.
  if (!setting || std::strtoll(setting->value.c_str(), nullptr, 0) != 1) return {};
  const bool is_in_file = !setting->file.empty();
  return {Code::invalid_argument,
          fmt::format("NCCL_COMM_BLOCKING={}{} makes NCCL wait without an end; {}, so that the loss of a "
                      "rank ends in an error",
                      setting->value, is_in_file ? " in " + setting->file : "",
                      is_in_file ? "remove that line, or set the variable to 0" : "unset it")};
}

}  // namespace dabke::nccl

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "launcher/cli/flags/config_file.h"

namespace dabke::launcher {
namespace {

/// The deepest nesting of maps in a valid file.
constexpr int kMostDepth = 4;

Status fault(const std::string& path, int line, const std::string& what) {
  return {Code::invalid_argument, fmt::format("--config-file {} line {}: {}", path, line, what)};
}

std::string joined(const std::string& section, std::string key) {
  std::ranges::replace(key, '_', '-');
  if (section.empty() || section == "params") return key;
  return key == "enabled" ? section : section + "-" + key;
}

Result<std::vector<std::string>> parts_of(const YAML::Node& node, const std::string& path) {
  if (node.IsScalar()) return std::vector<std::string>{node.Scalar()};
  std::vector<std::string> parts;
  for (const YAML::Node& part : node) {
    if (!part.IsScalar())
      return fault(path, part.Mark().line + 1, "a list with nested values: expected words or numbers");
    parts.push_back(part.Scalar());
  }
  return parts;
}

Status take_map(const YAML::Node& map, const std::string& path, const std::string& section, int depth,
                std::vector<ConfigEntry>& entries) {
  for (const auto& row : map) {
    const int line = row.first.Mark().line + 1;
    if (!row.first.IsScalar())
      return fault(path, line, "a key that is not a word: expected an option's name");
    const std::string key = joined(section, row.first.Scalar());
    if (row.second.IsMap()) {
      if (depth == kMostDepth) return fault(path, line, fmt::format("'{}' is nested too deeply", key));
      DABKE_RETURN_IF_ERROR(take_map(row.second, path, key, depth + 1, entries));
      continue;
    }
    if (row.second.IsNull())
      return fault(path, line, fmt::format("'{}' has no value: give one or leave it out", key));
    ConfigEntry entry{.key = key, .value = {}, .parts = {}, .line = line};
    DABKE_ASSIGN_OR_RETURN(entry.parts, parts_of(row.second, path));
    entry.value = fmt::format("{}", fmt::join(entry.parts, ","));
    bool truth = false;
    const bool is_truth = row.second.IsScalar() && YAML::convert<bool>::decode(row.second, truth);
    entry.is_true = (is_truth && truth) || entry.value == "1";
    entry.is_false = (is_truth && !truth) || entry.value == "0";
    entries.push_back(std::move(entry));
  }
  return {};
}

}  // namespace

Result<std::vector<ConfigEntry>> read_config_file(const std::string& path) {
  std::error_code not_known;
  if (std::filesystem::is_directory(path, not_known))
    return Status(Code::invalid_argument,
                  fmt::format("--config-file {}: it is a directory: name a YAML file", path));
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || (text.str().empty() && file.bad())) {
    return Status(Code::invalid_argument,
                  system_error(fmt::format("--config-file {}: cannot read it", path), errno).message());
  }
  std::vector<ConfigEntry> entries;
  try {
    const YAML::Node root = YAML::Load(text.str());
    if (root.IsNull()) return entries;
    if (!root.IsMap()) return fault(path, root.Mark().line + 1, "expected lines such as 'cycle-time-ms: 2'");
    DABKE_RETURN_IF_ERROR(take_map(root, path, "", 1, entries));
  } catch (const YAML::Exception& error) {
    return fault(path, error.mark.line + 1, fmt::format("not valid YAML: {}", error.msg));
  }
  return entries;
}

bool reads_config_files() { return true; }

}  // namespace dabke::launcher

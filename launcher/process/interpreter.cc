#include "launcher/process/interpreter.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/process/program.h"

namespace dabke::launcher {
namespace {

constexpr std::size_t kLongestLine = 256;  // the kernel reads no more

/// Returns the words after "#!"; none if there is no such line.
std::vector<std::string> words_of_first_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, kLongestLine> bytes{};
  file.read(bytes.data(), bytes.size());
  std::string_view line(bytes.data(), static_cast<std::size_t>(file.gcount()));
  line = line.substr(0, line.find('\n'));
  std::vector<std::string> words;
  if (!line.starts_with("#!")) return words;
  line.remove_prefix(2);
  // For the kernel a carriage return is not a blank, so it belongs to the name.
  while (!line.empty()) {
    const auto space = line.find_first_of(" \t");
    if (space != 0) words.emplace_back(line.substr(0, space));
    line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
  }
  return words;
}

std::string saved_with_crlf(const std::string& path) {
  return fmt::format(
      "its lines end in CRLF, as Windows writes them, so its interpreter is not found; convert it: sed -i "
      "'s/\\r$//' {}",
      path);
}

/// `words` are the words after env.
std::string trouble_with_env(const std::string& path, const std::string& env, std::vector<std::string> words,
                             const std::string& path_variable) {
  const bool is_split = !words.empty() && words.front() == "-S";
  if (is_split) words.erase(words.begin());
  std::erase_if(words, [](const std::string& word) { return word.find('=') != std::string::npos; });
  if (words.empty() || words.front().starts_with('-')) return "";
  const std::string& name = words.front();
  if (name.ends_with('\r')) return saved_with_crlf(path);
  if (!is_split && words.size() > 1)
    return fmt::format(
        "its first line makes env search for a program '{0}', spaces included; write #!{1} -S {0}",
        fmt::join(words, " "), env);
  if (!find_program(name, path_variable).path.empty()) return "";
  return fmt::format(
      "its first line names the interpreter '{}', which is not in PATH; install it or correct that line",
      name);
}

}  // namespace

std::string interpreter_trouble(const std::string& path, const std::string& path_variable) {
  std::vector<std::string> words = words_of_first_line(path);
  if (words.empty()) return "";
  const std::string interpreter = words.front();
  if (::access(interpreter.c_str(), F_OK) == 0) {
    words.erase(words.begin());
    return interpreter.ends_with("/env")
               ? trouble_with_env(path, interpreter, std::move(words), path_variable)
               : "";
  }
  if (interpreter.ends_with('\r')) return saved_with_crlf(path);
  return fmt::format(
      "its first line names the interpreter '{}', which does not exist; install it or correct that line",
      interpreter);
}

}  // namespace dabke::launcher

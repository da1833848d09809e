#include "launcher/agent/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace dabke {
namespace {

enum class Kind { missing, unusable, program };

Kind kind_of(const std::string& path, std::string& why) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    why = std::generic_category().message(errno);
    return errno == ENOENT || errno == ENOTDIR ? Kind::missing : Kind::unusable;
  }
  if (S_ISDIR(info.st_mode)) {
    why = "it is a directory";
    return Kind::unusable;
  }
  if (::access(path.c_str(), X_OK) == 0) return Kind::program;
  why = fmt::format("it is not executable; chmod +x {} or name its interpreter first", path);
  return Kind::unusable;
}

}  // namespace

ProgramSearch find_program(const std::string& name, const std::string& path_variable) {
  std::string why;
  if (name.find('/') != std::string::npos) {
    switch (kind_of(name, why)) {
      case Kind::program: return {.path = name};
      case Kind::unusable:
        return {.exit_code = 126, .message = fmt::format("cannot run '{}': {}", name, why)};
      case Kind::missing: break;
    }
    return {.exit_code = 127, .message = fmt::format("cannot run '{}': no such file; check the path", name)};
  }
  std::string unusable;
  for (std::string_view rest = path_variable;;) {
    const auto colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    const std::string path = fmt::format("{}/{}", directory.empty() ? "." : directory, name);
    const Kind kind = name.empty() ? Kind::missing : kind_of(path, why);
    if (kind == Kind::program) return {.path = path};
    if (kind == Kind::unusable && unusable.empty())
      unusable = fmt::format("cannot run '{}': {}: {}", name, path, why);
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (!unusable.empty()) return {.exit_code = 126, .message = unusable};
  const bool is_here = !name.empty() && kind_of("./" + name, why) == Kind::program;
  return {.exit_code = 127,
          .message = fmt::format(
              "cannot run '{}': no such program in PATH; {}", name,
              is_here ? fmt::format("did you mean ./{}?", name) : "check its name or give its path")};
}

}  // namespace dabke

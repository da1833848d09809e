#include "launcher/process/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "launcher/process/interpreter.h"

namespace dabke::launcher {
namespace {

enum class Kind { missing, unusable, program };

/// Returns "python train.py" for a script that is not executable; empty if the name shows no interpreter.
std::string run_by_interpreter(const std::string& path) {
  if (path.ends_with(".py")) return "python " + path;
  if (path.ends_with(".sh")) return "sh " + path;
  return "";
}

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
  const std::string script = run_by_interpreter(path);
  why = script.empty() ? fmt::format("it is not executable; chmod +x {} or name its interpreter first", path)
                       : fmt::format("it is not executable; did you mean {}?", script);
  return Kind::unusable;
}

/// Checks the interpreter, because a script without one would fail only after every rank has been forked.
ProgramSearch found_program(const std::string& name, const std::string& path,
                            const std::string& path_variable) {
  const std::string trouble = interpreter_trouble(path, path_variable);
  if (trouble.empty()) return {.path = path};
  return {.exit_code = 127,
          .message = fmt::format("cannot run '{}': {}{}", name, path == name ? "" : path + ": ", trouble)};
}

/// Returns the remedy for a name that no directory of PATH has.
std::string instead_of(const std::string& name) {
  std::string why;
  const Kind here = name.empty() ? Kind::missing : kind_of("./" + name, why);
  const std::string script = run_by_interpreter(name);
  if (here == Kind::program) return fmt::format("did you mean ./{}?", name);
  if (here == Kind::unusable && !script.empty()) return fmt::format("did you mean {}?", script);
  if (here == Kind::unusable) return fmt::format("there is ./{}, but {}", name, why);
  return "check its name or give its path";
}

}  // namespace

ProgramSearch find_program(const std::string& name, const std::string& path_variable) {
  std::string why;
  if (name.find('/') != std::string::npos) {
    switch (kind_of(name, why)) {
      case Kind::program: return found_program(name, name, path_variable);
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
    if (kind == Kind::program) return found_program(name, path, path_variable);
    if (kind == Kind::unusable && unusable.empty())
      unusable = fmt::format("cannot run '{}': {}: {}", name, path, why);
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (!unusable.empty()) return {.exit_code = 126, .message = unusable};
  return {.exit_code = 127,
          .message = fmt::format("cannot run '{}': no such program in PATH; {}", name, instead_of(name))};
}

}  // namespace dabke::launcher

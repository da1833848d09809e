#include "launcher/cli/build_report.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "build_parts.h"
#include "launcher/agent_protocol/version.h"
#include "launcher/cli/build_facts.h"
#include "launcher/cli/flags/config_file.h"
#include "launcher/cli/python_packages.h"
#include "launcher/machine/host_cores.h"
#include "launcher/process/program.h"
#include "runtime/base/settings/config.h"

namespace dabke::launcher {

namespace {

std::string modules_text(const std::filesystem::path& own, const Environment& environment) {
  std::vector<std::filesystem::path> folders = module_folders(own);
  if (const auto said = environment("DABKE_MODULE_PATH")) folders = {*said};
  std::string out;
  for (const auto& folder : folders) {
    std::error_code error;
    for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
         file.increment(error)) {
      if (file->path().extension() == ".so")
        out += fmt::format("    {:<10} {}\n", "module", file->path().string());
    }
    if (!out.empty()) return out;
  }
  std::vector<std::string> names;
  for (const auto& folder : folders) names.push_back(folder.string());
  return fmt::format("    {:<10} none in {}\n", "module", fmt::join(names, ", "));
}

std::string python_text(const PythonPackages& found) {
  const auto line = [](std::string_view name, const std::string& text) {
    return fmt::format("    {:<10} {}\n", name, text);
  };
  if (found.python.empty()) return line("python", "not in PATH");
  std::string out = line("python", found.python + (found.trouble.empty() ? "" : ": " + found.trouble));
  if (!found.trouble.empty()) return out;
  out += line("  dabke",
              found.dabke.empty() ? "not there" : fmt::format("{}, {}", found.dabke, found.dabke_path));
  return out + line("  torch", found.torch.empty() ? "not there" : found.torch);
}

}  // namespace

/// Returns the folders that may have the modules: each is beside a libdabke.so.
std::vector<std::filesystem::path> module_folders(const std::filesystem::path& own) {
  const std::filesystem::path above = own.parent_path().parent_path();
  std::vector<std::filesystem::path> folders{above / "bindings" / "c" / "dabke",
                                             above / DABKE_LIBDIR_NAME / "dabke", above / "lib" / "dabke",
                                             std::filesystem::path(DABKE_LIBDIR) / "dabke"};
  // Several entries may be the same folder.
  std::vector<std::filesystem::path> once;
  for (auto& folder : folders) {
    if (std::ranges::find(once, folder) == once.end()) once.push_back(std::move(folder));
  }
  return once;
}

std::string version_text() { return "dabkerun " DABKE_VERSION "\n"; }

std::string build_report() {
  const Environment environment = process_environment();
  std::string out = "Dabke v" DABKE_VERSION ":\n";
  // Scripts that read horovodrun's report search for lines such as "    [X] Gloo".
  const auto add = [&out](std::span<const BuildPart> parts) {
    for (const BuildPart& part : parts)
      out += fmt::format("    [{}] {}\n", part.is_built ? 'X' : ' ', part.title);
  };
  const PythonPackages python = find_python_packages(environment);
  // The frameworks of Horovod, of which Dabke serves one.
  out += fmt::format("\nAvailable Frameworks:\n    [ ] TensorFlow\n    [{}] PyTorch\n    [ ] MXNet\n",
                     python.dabke.empty() || python.torch.empty() ? ' ' : 'X');
  out += "\nAvailable Controllers:\n";
  add(kControllers);
  out += "\nAvailable Tensor Operations:\n";
  add(kBackends);
  out += "\nBuild:\n";
  out += fmt::format("    compiler   {}\n    build type {}\n    platform   {}\n    CUDA       {}\n",
                     DABKE_COMPILER, DABKE_BUILD_TYPE, DABKE_PLATFORM, DABKE_CUDA);
  out += fmt::format("    --config-file  {}\n",
                     reads_config_files() ? "read by yaml-cpp" : "not read: built without yaml-cpp");
  out +=
      fmt::format("    --bind-to auto {}\n", can_find_caches() ? "binds by cores and caches (hwloc)"
                                                               : "does not bind ranks: built without hwloc");
  out += "\nLibraries:\n";
  for (const BuildLibrary& library : kLibraries)
    out += fmt::format("    {:<10} {}\n", library.name, library.version);
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  out += fmt::format("\nPaths:\n    dabkerun   {}\n", error ? "not known: " + error.message() : own.string());
  const std::string path = environment("PATH").value_or(kStandardPath);
  for (const std::string program : {"ssh", "srun", "mpirun"}) {
    const std::string found = find_program(program, path).path;
    out += fmt::format("    {:<10} {}\n", program, found.empty() ? "not in PATH" : found);
  }
  out += modules_text(own, environment);
  return out + python_text(python);
}

}  // namespace dabke::launcher

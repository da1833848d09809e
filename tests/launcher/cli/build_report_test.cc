#include "launcher/cli/build_report.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "build_parts.h"
#include "ops/registry.h"
#include "runtime/backend/backend.h"
#include "runtime/base/settings/config.h"
#include "tests/facts.h"
#include "tests/temporary_directory.h"

namespace dabke::test {
using namespace launcher;
namespace {

std::string choices_of(std::string_view env) {
  const auto knob = std::ranges::find(knobs(), env, &Knob::env);
  return "," + std::string(knob->choices()) + ",";
}

}  // namespace

TEST_CASE("--check-build names every controller and backend, and says of each whether it is there") {
  const char mpi = MPI_MODULES > 0 ? 'X' : ' ';  // the modules that this build makes
  const std::string wanted = fmt::format(
      "\nAvailable Controllers:\n"
      "    [X] TCP\n    [X] shm\n    [{0}] MPI\n"
      "\nAvailable Tensor Operations:\n"
      "    [X] shm\n    [X] hierarchical\n    [X] TCP\n    [X] Gloo\n    [{0}] MPI\n    [{1}] NCCL\n"
      "\nBuild:\n",
      mpi, CUDA_BUILT ? 'X' : ' ');
  CHECK_THAT(build_report(), Catch::StartsWith("Dabke v") && Catch::Contains(wanted));
}

TEST_CASE("--check-build says where this program is, and what can bring it elsewhere") {
  const std::string own = std::filesystem::read_symlink("/proc/self/exe");
  CHECK_THAT(build_report(), Catch::Contains("\nPaths:\n    dabkerun   " + own + "\n    ssh        ") &&
                                 Catch::Contains("\n    srun       ") &&
                                 Catch::Contains("\n    mpirun     "));
}

TEST_CASE("--check-build says which libraries are in the build, and where its modules are") {
  CHECK_THAT(build_report(), Catch::Contains("\nLibraries:\n    Gloo       yes\n    MPICH      ") &&
                                 Catch::Contains("\n    spdlog     1.") &&
                                 Catch::Contains("\n    libfabric  no\n") &&
                                 Catch::Contains("\n    module     "));
}

namespace {

const std::string kKilled = "/python: it was killed by SIGKILL\n";

/// Returns the report with only one program in PATH: a python that runs `script`. If the script ends by
/// itself, it may be late on a busy machine and be killed, so the report is made again.
std::string report_with_python(const std::string& script, bool ends = true) {
  const test::TemporaryDirectory place;
  const std::string python = place / "python";
  std::ofstream(python) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const std::string before = process_environment()("PATH").value_or("");
  ::setenv("PATH", (place / "").c_str(), 1);
  std::string report = build_report();
  for (int i = 0; ends && i < 4 && report.find(kKilled) != std::string::npos; ++i) report = build_report();
  ::setenv("PATH", before.c_str(), 1);
  return report;
}

}  // namespace

TEST_CASE("--check-build says which frameworks the python in PATH can train with, and never fails of it") {
  CHECK_THAT(
      report_with_python("echo dabke 0.1.0 /x y/dabke/__init__.py; echo torch 2.1.0+cpu /t.py; echo end"),
      Catch::Contains("\nAvailable Frameworks:\n    [ ] TensorFlow\n    [X] PyTorch\n    [ ] MXNet\n") &&
          Catch::Contains("\n      dabke    0.1.0, /x y/dabke/__init__.py\n      torch    2.1.0+cpu\n"));
  CHECK_THAT(report_with_python("echo torch 2.1.0+cpu /t.py; echo end"),
             Catch::Contains("\n    [ ] PyTorch\n") && Catch::Contains("\n      dabke    not there\n"));
  CHECK_THAT(report_with_python("exit 3"), Catch::Contains("\n    [ ] PyTorch\n") &&
                                               Catch::Contains("/python: it exited with status code 3\n"));
  CHECK_THAT(report_with_python("exec /bin/sleep 1000", false), Catch::Contains(kKilled));
}

TEST_CASE("--check-build asks the python that runs dabkerun, though PATH has another") {
  const test::TemporaryDirectory place;
  const std::string python = place / "my-python";
  std::ofstream(python) << "#!/bin/sh\necho dabke 0.1.0 /mine.py; echo end\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  ::setenv("DABKE_PYTHON", python.c_str(), 1);
  const std::string report = report_with_python("echo end");
  ::unsetenv("DABKE_PYTHON");
  CHECK_THAT(report, Catch::Contains("    python     " + python + "\n      dabke    0.1.0, /mine.py\n"));
}

TEST_CASE("modules are looked for where a build, an installation and a Python package have them") {
  const auto names = [](const std::string& own) {
    std::vector<std::string> names;
    for (const auto& folder : module_folders(own)) names.push_back(folder.string());
    return names;
  };
  CHECK_THAT(names("/src/build/launcher/dabkerun"),
             Catch::VectorContains(std::string("/src/build/bindings/c/dabke")));
  CHECK_THAT(names("/x/site-packages/dabke/bin/dabkerun"),
             Catch::VectorContains(std::string("/x/site-packages/dabke/lib/dabke")));
}

TEST_CASE("--check-build says which CUDA it was built with, or why with none") {
  const auto says = CUDA_BUILT ? Catch::Contains("    CUDA       /") : Catch::Contains("    CUDA       no: ");
  CHECK_THAT(build_report(), says);
}

TEST_CASE("what --check-build says of a backend, the library says too, and the variable takes its name") {
  for (const BuildPart& part : kBackends) {
    INFO(part.name);
    CHECK(ops::is_backend_built(part.name) == part.is_built);
    if (part.is_built && part.name != "nccl")  // nccl does not serve host tensors
      CHECK_THAT(choices_of("CPU_OPERATIONS"), Catch::Contains(fmt::format(",{},", part.name)));
  }
  for (const BuildPart& part : kControllers) {
    INFO(part.name);
    CHECK_THAT(choices_of("CONTROLLER"), Catch::Contains(fmt::format(",{},", part.name)));
  }
}

}  // namespace dabke::test

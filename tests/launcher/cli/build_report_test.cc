#include "launcher/cli/build_report.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "build_parts.h"
#include "ops/registry.h"
#include "runtime/backend/backend.h"
#include "runtime/base/config.h"
#include "tests/facts.h"

namespace dabke {
namespace {

std::string choices_of(std::string_view env) {
  const auto knob = std::ranges::find(knobs(), env, &Knob::env);
  return "," + std::string(knob->range.choices) + ",";
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

TEST_CASE("--check-build says which CUDA it was built with, or why with none") {
  const auto says = CUDA_BUILT ? Catch::Contains("    CUDA       /") : Catch::Contains("    CUDA       no: ");
  CHECK_THAT(build_report(), says);
}

TEST_CASE("what --check-build says of a backend, the library says too, and the variable takes its name") {
  for (const BuildPart& part : kBackends) {
    INFO(part.name);
    CHECK(is_backend_built(part.name) == part.is_built);
    if (part.is_built && part.name != "nccl")  // it is not for host tensors
      CHECK_THAT(choices_of("CPU_OPERATIONS"), Catch::Contains(fmt::format(",{},", part.name)));
  }
  for (const BuildPart& part : kControllers) {
    INFO(part.name);
    CHECK_THAT(choices_of("CONTROLLER"), Catch::Contains(fmt::format(",{},", part.name)));
  }
}

}  // namespace dabke

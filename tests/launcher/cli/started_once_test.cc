#include "launcher/cli/started_once.h"

#include <map>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Variables = std::map<std::string, std::string>;

std::string error_with(const Variables& variables) {
  return check_started_once([&](const std::string& name) -> std::optional<std::string> {
           const auto found = variables.find(name);
           return found == variables.end() ? std::nullopt : std::optional(found->second);
         })
      .message();
}

}  // namespace

TEST_CASE("dabkerun refuses to be one of several, whoever starts it so") {
  CHECK(error_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}) ==
        "Open MPI has started dabkerun 2 times (OMPI_COMM_WORLD_SIZE is 2 and OMPI_COMM_WORLD_RANK is 1), "
        "and each would start a job: start dabkerun once, without that launcher, or start the program with "
        "that launcher, without dabkerun. To start another job from one rank, remove these variables from "
        "its environment (env -u)");
  for (const Variables& variables :
       {Variables{{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}},
        Variables{{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"TORCHELASTIC_RUN_ID", "x"}},
        Variables{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}},
        Variables{{"DABKE_SIZE", "2"}, {"DABKE_RANK", "0"}, {"DABKE_JOB_ID", "x"}}})
    CHECK_THAT(error_with(variables), Catch::Contains(" has started dabkerun 2 times ("));
}

TEST_CASE("dabkerun starts where it is alone") {
  for (const Variables& variables :
       {Variables{}, Variables{{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}},
        Variables{{"WORLD_SIZE", "2"}, {"RANK", "0"}},  // of a container that was started once
        Variables{{"DABKE_SIZE", "1"}, {"DABKE_RANK", "0"}, {"DABKE_JOB_ID", "x"}},
        Variables{{"SLURM_STEP_ID", "0"},
                  {"SLURM_STEP_NUM_TASKS", "1"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "4"}}})
    CHECK(error_with(variables).empty());
}

}  // namespace dabke::test

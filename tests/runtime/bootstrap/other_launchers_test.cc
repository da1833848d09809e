#include "runtime/bootstrap/other_launchers.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/bootstrap/bootstrap.h"
#include "tests/run_ranks.h"
#include "tests/runtime/links/ranks.h"
#include "tests/temporary_directory.h"
#include "tests/variables.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

namespace {

/// "rank 1 of 2", or the error.
std::string outcome_of(const Variables& variables) {
  Config config;
  config.start_timeout = 5;
  const auto joined = bootstrap::bootstrap(config, environment_of(variables));
  if (!joined.is_ok()) return joined.status().message();
  return fmt::format("rank {} of {}", joined->world.rank, joined->world.size);
}

Variables torchrun(int rank, int size) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

Variables srun(int rank, int size) {
  return {{"SLURM_JOB_ID", "7"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_NTASKS", std::to_string(size)},
          {"SLURM_STEP_NUM_TASKS", std::to_string(size)},
          {"SLURM_PROCID", std::to_string(rank)}};
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

}  // namespace

TEST_CASE("one of several processes of another launcher is refused, with its variables and the ways out") {
  const auto [variables, launcher, evidence] = GENERATE(table<Variables, std::string, std::string>({
      {torchrun(1, 2), "torchrun", "WORLD_SIZE is 2 and RANK is 1"},
      {srun(0, 3), "Slurm", "SLURM_STEP_NUM_TASKS is 3 and SLURM_PROCID is 0"},
      {{{"SLURM_STEP_ID", "4"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}}, "Slurm", "SLURM_NTASKS is 2"},
      {{{"MV2_COMM_WORLD_SIZE", "4"}, {"MV2_COMM_WORLD_RANK", "3"}}, "MVAPICH", "one of 4"},
      {{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}}, "PMIx", "one of at least 2"},
      {with(torchrun(0, 2), {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}), "torchrun", "one of 2"},
      {with(torchrun(3, 4), {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}), "torchrun",
       "one of 4"},
  }));
  const std::string error = outcome_of(variables);
  CHECK_THAT(error, Contains(launcher) && Contains(evidence));
  CHECK_THAT(error, Contains("dabkerun") && Contains("mpirun") && Contains("DABKE_RENDEZVOUS=file:") &&
                        Contains("DABKE_SIZE=1"));
}

TEST_CASE("a process that no launcher has made one of several is alone") {
  const Variables variables =
      GENERATE(Variables{}, torchrun(0, 1), srun(0, 1),
               // salloc's shell and a batch script: an allocation of four tasks, and not a step of it
               Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}},
               Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
               Variables{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967290"}},
               // a shell that srun has started once in an allocation of four
               Variables{{"SLURM_NTASKS", "4"},
                         {"SLURM_STEP_NUM_TASKS", "1"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", "0"}},
               Variables{{"WORLD_SIZE", "2"}}, Variables{{"WORLD_SIZE", "many"}, {"RANK", "0"}},
               with(srun(0, 2), torchrun(0, 1)),
               // variables that demand a job of one rank
               with(torchrun(0, 2), {{"DABKE_SIZE", "1"}}), with(srun(1, 2), {{"HOROVOD_SIZE", "1"}}),
               with(srun(1, 2), {{"DABKE_SIZE", "1"}, {"DABKE_RANK", "0"}}));
  CHECK(outcome_of(variables) == "rank 0 of 1");
}

TEST_CASE("a place to meet is enough: rank and size come from the other launcher") {
  const auto place_of = GENERATE(
      &torchrun, &srun, +[](int rank, int size) {
        return Variables{{"PMI_RANK", std::to_string(rank)}, {"PMI_SIZE", std::to_string(size)}};
      });
  TemporaryDirectory directory;
  const auto seen = run_ranks(2, [&](Rank rank) {
    return outcome_of(with(place_of(rank, 2), {{"DABKE_RENDEZVOUS", "file:" + directory.path()}}));
  });
  CHECK(seen == std::vector<std::string>{"rank 0 of 2", "rank 1 of 2"});
  CHECK_THAT(outcome_of({{"PMIX_RANK", "1"}, {"DABKE_RENDEZVOUS", "file:" + directory.path()}}),
             Contains("DABKE_SIZE is not"));
}

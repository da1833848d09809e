#include "launcher/cli/mpi_launch.h"

#include <algorithm>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

const std::vector<RankPlacement> kPlacements = *place_ranks({{"a", 2}, {"b", 1}}, 3);
const std::vector<std::string> kEnvironment{"PATH=/bin", "SECRET=word", "SSH_TTY=x", "OMPI_MCA_x=1"};

std::vector<std::string> words_for(MpiKind kind, const Options& options) {
  const auto command = mpi_command(kind, "mpirun", options, kPlacements, kEnvironment);
  REQUIRE(command.is_ok());
  return command->words;
}

}  // namespace

TEST_CASE("which mpirun it is follows from what it says of itself") {
  CHECK(*mpi_kind_of("HYDRA build details:\n    Version: 4.0.2\n") == MpiKind::hydra);
  CHECK(*mpi_kind_of("mpirun (Open MPI) 4.1.4\n") == MpiKind::open_mpi);
  CHECK(*mpi_kind_of("mpirun.openmpi (OpenRTE) 4.1.4\n") == MpiKind::open_mpi);
  CHECK_THAT(
      mpi_kind_of("Intel(R) something\nelse").status().message(),
      Catch::Contains("its --version prints 'Intel(R) something': start the program with it yourself"));
}

TEST_CASE("ranks, hosts and flags become those of each mpirun, and values stay off its command line") {
  const Options options{.stdin_to_rank_0 = false,
                        .ssh_port = "2222",
                        .ssh_identity_file = "key",
                        .ssh_user = "me",
                        .knobs = {{"DABKE_LOG_LEVEL", "info"}},
                        .command = {"./train", "-x"}};
  CHECK(words_for(MpiKind::open_mpi, options) == std::vector<std::string>{"mpirun",
                                                                          "-np",
                                                                          "3",
                                                                          "-H",
                                                                          "a:2,b:1",
                                                                          "--map-by",
                                                                          "slot",
                                                                          "--bind-to",
                                                                          "none",
                                                                          "--tag-output",
                                                                          "--stdin",
                                                                          "none",
                                                                          "--mca",
                                                                          "plm_rsh_args",
                                                                          "-p 2222 -i key -l me",
                                                                          "-x",
                                                                          "DABKE_LOG_LEVEL",
                                                                          "-x",
                                                                          "PATH",
                                                                          "-x",
                                                                          "SECRET",
                                                                          "./train",
                                                                          "-x"});
  const auto hydra = mpi_command(MpiKind::hydra, "mpirun", options, kPlacements, kEnvironment);
  REQUIRE(hydra.is_ok());
  CHECK(hydra->words == std::vector<std::string>{"mpirun", "-np", "3", "-hosts", "a:2,b:1", "-bind-to",
                                                 "none", "-prepend-rank", "-s", "none", "-launcher", "ssh",
                                                 "./train", "-x"});
  CHECK(hydra->variables ==
        std::vector<std::pair<std::string, std::string>>{
            {"DABKE_LOG_LEVEL", "info"}, {"HYDRA_LAUNCHER_EXTRA_ARGS", "-p 2222 -i key -l me"}});
}

TEST_CASE("what mpirun cannot do is refused by name") {
  const auto refusal = [](MpiKind kind, const Options& options) {
    return mpi_command(kind, "mpirun", options, kPlacements, {}).status().message();
  };
  CHECK_THAT(
      refusal(MpiKind::hydra, {.output_directory = "d"}),
      Catch::StartsWith(
          "--output-filename: not supported with --launcher mpi, because mpirun of MPICH starts the ranks"));
  CHECK_THAT(
      refusal(MpiKind::open_mpi, {.remote_shell = "rsh"}),
      Catch::StartsWith(
          "--remote-shell: not supported with --launcher mpi, because mpirun of Open MPI starts the ranks"));
  CHECK_THAT(refusal(MpiKind::open_mpi, {.pty = false}), Catch::StartsWith("--no-pty: "));
  CHECK_THAT(refusal(MpiKind::hydra, {.timestamps = true}),
             Catch::StartsWith("--prefix-output-with-timestamp: "));
  CHECK(std::ranges::count(words_for(MpiKind::open_mpi, {.timestamps = true}), "--timestamp-output") == 1);
}

}  // namespace dabke::test

// The jobs for tests of the negotiation: every control channel, and every form of tree that a few ranks can
// have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/multiproc/launcher_run.h"

namespace dabke::test {

/// The channels that tests run with: those of DABKE_TEST_CHANNELS, separated by commas, or all that need no
/// MPI. A channel is a value of DABKE_CONTROLLER, and dabkerun starts the job. For mpi-mpich and mpi-openmpi
/// the value is `mpi`, and the mpirun of that MPI starts the job.
std::vector<std::string> channels();

struct Tree {
  std::string name;
  int ranks = 0;
  int radix = 0;           // DABKE_TREE_RADIX
  int ranks_per_host = 0;  // 0: all ranks on one host
};

/// Trees of two, three and four ranks, one per size; for four ranks every tree that they can form.
std::vector<Tree> trees();
/// The trees of at least `ranks` ranks.
std::vector<Tree> trees_from(int ranks);

struct Job {
  std::string channel;
  Tree tree;
  std::vector<std::string> command;
  std::vector<std::string> environment = {};
};

/// A job under its launcher. Output and exit code have the form of dabkerun, also under mpirun. Ranks that
/// ignore SIGTERM have time to report how they end by themselves.
class JobRun {
 public:
  explicit JobRun(const Job& job);
  Finished finish(std::chrono::seconds limit = kLongest);

 private:
  int ranks_;
  std::unique_ptr<TemporaryDirectory> place_;  // holds the output of the ranks under mpirun
  std::unique_ptr<LauncherRun> run_;
};

/// True if all ranks have ended with code 0, have printed "done", and have printed nothing on stderr.
bool all_done(const Finished& finished, int ranks);

}  // namespace dabke::test

// The jobs that the negotiation is tested in: every control channel, and every form of tree that a few ranks
// can have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/multiproc/launcher_run.h"

namespace dabke::test {

/// The channels that tests run with: those in DABKE_TEST_CHANNELS, with a comma between them, or all that
/// need no MPI. A value of DABKE_CONTROLLER, under dabkerun; mpi-mpich and mpi-openmpi: mpi, under the mpirun
/// of it.
std::vector<std::string> channels();

struct Tree {
  std::string name;
  int ranks = 0;
  int radix = 0;           // DABKE_TREE_RADIX
  int ranks_per_host = 0;  // 0: all on one
};

/// Two, three and four ranks, each in another tree; four in each tree that they can have.
std::vector<Tree> trees();
/// Those of at least `ranks` ranks.
std::vector<Tree> trees_from(int ranks);

struct Job {
  std::string channel;
  Tree tree;
  std::vector<std::string> command;
  std::vector<std::string> environment = {};
};

/// A job under its launcher. What its ranks print, and how it ends, is as dabkerun gives it, under mpirun
/// too. Ranks that ignore SIGTERM have time to tell how they end by themselves.
class JobRun {
 public:
  explicit JobRun(const Job& job);
  Finished finish(std::chrono::seconds limit = kLongest);

 private:
  int ranks_;
  std::unique_ptr<TemporaryDirectory> place_;  // where what the ranks print under mpirun goes
  std::unique_ptr<LauncherRun> run_;
};

/// What all ranks must have done: ended with code 0 and said "done", and not a word on stderr.
bool all_done(const Finished& finished, int ranks);

}  // namespace dabke::test

// The jobs that the negotiation is tested in: every control channel, and every form of tree that a few ranks
// can have.
#pragma once

#include <string>
#include <vector>

#include "tests/multiproc/launcher_run.h"

namespace dabke {

/// The values of DABKE_CONTROLLER that tests run with.
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

LauncherRun start(const Job& job);

/// What all ranks must have done: ended with code 0 and said "done", and not a word on stderr.
bool all_done(const Finished& finished, int ranks);

}  // namespace dabke

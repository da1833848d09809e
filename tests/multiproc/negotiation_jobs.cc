#include "tests/multiproc/negotiation_jobs.h"

#include <algorithm>

namespace dabke {

std::vector<std::string> channels() { return {"shm", "tcp", "auto"}; }

std::vector<Tree> trees() {
  return {
      {"two, flat", 2, 0, 0},         {"three in a chain", 3, 1, 1}, {"four, flat", 4, 0, 0},
      {"four on two hosts", 4, 8, 2}, {"four in a chain", 4, 1, 1},  {"four in a binary tree", 4, 2, 1},
  };
}

std::vector<Tree> trees_from(int ranks) {
  std::vector<Tree> found = trees();
  std::erase_if(found, [&](const Tree& tree) { return tree.ranks < ranks; });
  return found;
}

LauncherRun start(const Job& job) {
  std::vector<std::string> arguments{"-np", std::to_string(job.tree.ranks)};
  arguments.insert(arguments.end(), job.command.begin(), job.command.end());
  LauncherSetup setup{.environment = job.environment};
  setup.environment.push_back("DABKE_CONTROLLER=" + job.channel);
  setup.environment.push_back("DABKE_TREE_RADIX=" + std::to_string(job.tree.radix));
  setup.environment.push_back("DABKE_TEST_RANKS_PER_HOST=" + std::to_string(job.tree.ranks_per_host));
  setup.environment.push_back("DABKE_DUMP_DIR=none");
  return LauncherRun(std::move(arguments), setup);
}

bool all_done(const Finished& finished, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (finished.out.find("[" + std::to_string(rank) + "]<stdout>:done\n") == std::string::npos) return false;
  }
  return finished.exit_code == 0 && finished.error.empty();
}

}  // namespace dabke

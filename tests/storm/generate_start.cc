#include "generate_start.h"

namespace storm {
namespace {

/// Chooses how the job starts, and how its data and its negotiation move.
void choose_ways(Random& random, const Program& program, Epoch& epoch) {
  const bool over_mpi = program.starter != "dabkerun";
  const bool one_host = program.ranks_per_host == 0;
  const bool some_host_has_several = program.ranks_per_host > 1 && program.ranks > program.ranks_per_host;
  std::string operations = random.one_of({"", "", "", "auto", "gloo", "gloo", "tcp"});
  if (one_host && random.chance(25)) operations = "shm";
  if (some_host_has_several && random.chance(30)) operations = "hierarchical";
  if (over_mpi && random.chance(50)) operations = "mpi";
  if (!operations.empty()) epoch.knobs["CPU_OPERATIONS"] = operations;
  std::string controller = random.one_of({"", "", "", "auto", "tcp", "gloo"});
  if (one_host && random.chance(10)) controller = "shm";
  if (over_mpi && random.chance(50)) controller = "mpi";
  if (!controller.empty()) epoch.knobs["CONTROLLER"] = controller;
}

void maybe(Random& random, Epoch& epoch, int percent, const char* knob,
           std::initializer_list<const char*> values) {
  if (random.chance(percent)) epoch.knobs[knob] = random.one_of(values);
}

}  // namespace

void choose_start(Random& random, Program& program) {
  program.ranks = random.one_of({1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 6, 7, 8});
  program.starter = random.one_of({"dabkerun", "dabkerun", "dabkerun", "dabkerun", "dabkerun", "dabkerun",
                                   "dabkerun", "dabkerun", "mpich", "openmpi"});
  if (program.ranks > 1 && random.chance(30)) program.ranks_per_host = random.one_of({1, 2, 2, 3});
  program.registered_percent = random.one_of({0, 0, 20, 60, 100});
  program.pace = random.below(4);
}

void choose_knobs(Random& random, const Program& program, Epoch& epoch) {
  choose_ways(random, program, epoch);
  maybe(random, epoch, 30, "FUSION_THRESHOLD", {"0", "1", "64", "1024", "65536", "1048576"});
  maybe(random, epoch, 20, "CYCLE_TIME", {"0.05", "0.5", "3"});
  maybe(random, epoch, 15, "DISABLE_GROUP_FUSION", {"1"});
  maybe(random, epoch, 45, "CACHE_CAPACITY", {"0", "1", "2", "3", "5", "8", "100"});
  maybe(random, epoch, 25, "DISABLE_LEARNED_BATCHES", {"1"});
  maybe(random, epoch, 15, "DETERMINISTIC", {"1"});
  maybe(random, epoch, 40, "TREE_RADIX", {"0", "1", "2", "3"});
  maybe(random, epoch, 10, "COMPRESSION", {"float16", "bfloat16"});
  maybe(random, epoch, 5, "DISABLE_NATIVE_STACKS", {"1"});
  maybe(random, epoch, 5, "STALL_CHECK_DISABLE", {"1"});
  maybe(random, epoch, 5, "PROFILE", {"1"});
  maybe(random, epoch, 5, "TIMELINE_MARK_CYCLES", {"1"});
  epoch.knobs_in_options = random.chance(50);
  epoch.knobs_differ = random.chance(10);
}

}  // namespace storm

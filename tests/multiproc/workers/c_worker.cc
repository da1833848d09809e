// The negotiation as a C program sees it. The first argument names the scenario.
#include "c_worker.h"

int main(int argc, char** argv) {
  using namespace worker;
  constexpr Scenario kScenarios[] = {
      {"process-sets", c::process_sets},
      {"static-sets", c::static_sets},
      {"sets-among-members", c::sets_among_members},
      {"ring-of-sets", c::ring_of_sets},
      {"join", c::join},
      {"groups", c::groups},
      {"barrier", c::barrier},
      {"learned", c::learned},
      {"dies-in-init", c::dies_in_init},
      {"exits-in-init", c::exits_in_init},
  };
  return run_scenario(argc, argv, kScenarios);
}

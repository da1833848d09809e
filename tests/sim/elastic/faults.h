// The faults and changes of a simulated elastic job, by chance. Processes are killed and stopped. Hosts stand
// still, are lost, and come and go. Some kills come in a meeting, while an epoch opens, or in a sync.
#pragma once

#include <string>
#include <vector>

#include "tests/sim/elastic/elastic_world.h"
#include "tests/sim/elastic/sim_cluster.h"

namespace dabke::test {

class Faults {
 public:
  /// `count` events, `pause` apart on average. Then all hosts are there again.
  Faults(ElasticWorld& world, SimCluster& cluster, std::vector<Host> hosts, int count, Duration pause);

 private:
  void next();
  void strike();
  bool is_last(const std::string& host);
  void change_hosts();
  void strike_in(SimWorker& worker);
  WorkerId any(const std::vector<WorkerId>& of);

  ElasticWorld& world_;
  SimCluster& cluster_;
  const std::vector<Host> hosts_;
  int left_;
  const Duration pause_;
};

}  // namespace dabke::test

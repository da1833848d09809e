#include "launcher/agent/host_cores.h"

namespace dabke {

std::vector<CacheCores> cores_by_cache(const std::vector<int>& units, const std::string&) {
  CacheCores cores;
  for (const int unit : units) cores.push_back({unit});
  return {cores};
}

}  // namespace dabke

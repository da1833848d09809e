#include "tests/in_process/setups.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace dabke::testing {

std::vector<Setup> backends_for_threads() {
  const std::vector<Setup> all = {
      {"shm", Setup::Data::shm, Setup::Control::links},
      {"hierarchical", Setup::Data::hierarchical, Setup::Control::links},
      {"tcp", Setup::Data::tcp, Setup::Control::links},
      {"gloo", Setup::Data::gloo, Setup::Control::links},
      {"threads", Setup::Data::threads, Setup::Control::sim},
      {"device", Setup::Data::device, Setup::Control::sim},
      {"staged", Setup::Data::staged, Setup::Control::sim},
      {"threads-tcp", Setup::Data::threads, Setup::Control::links},
  };
  const char* wanted = std::getenv("DABKE_TEST_BACKENDS");
  if (wanted == nullptr || *wanted == '\0') return all;
  std::vector<Setup> chosen;
  std::istringstream names(wanted);
  for (std::string name; std::getline(names, name, ',');) {
    const auto found = std::ranges::find(all, name, &Setup::name);
    if (found == all.end())
      throw std::runtime_error("DABKE_TEST_BACKENDS: there is no backend '" + name + "'");
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace dabke::testing

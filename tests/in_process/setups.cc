#include "tests/in_process/setups.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <random>
#include <sstream>
#include <stdexcept>

#include "ops/registry.h"
#include "tests/patience.h"
#include "tests/seed.h"

namespace dabke::test {
namespace {

constexpr const char* kNames = "DABKE_TEST_BACKENDS";
bool are_named() {
  const char* names = std::getenv(kNames);
  return names != nullptr && *names != '\0';
}

std::vector<Setup> those_of_this_build(std::vector<Setup> all) {
  if (!ops::is_backend_built("nccl"))
    std::erase_if(all, [](const Setup& setup) { return setup.data == Setup::Data::nccl; });
  return all;
}

}  // namespace

const std::vector<Setup>& all_setups() {
  using Control = Setup::Control;
  using Data = Setup::Data;
  // clang-format off
  static const std::vector<Setup> all = those_of_this_build({
      // name               control         data           cpu_operations  activity   hosts  gpu_operations
      {"shm",               Control::links, Data::library, "shm",          "SHM_"},
      {"hierarchical",      Control::links, Data::library, "",             "TCP_",    2},
      {"tcp",               Control::links, Data::library, "tcp",          "TCP_"},
      {"gloo",              Control::links, Data::library, "gloo",         "GLOO_"},
      {"threads",           Control::sim,   Data::threads},
      {"device",            Control::sim,   Data::device,  "",             "FAKE_"},
      {"staged",            Control::sim,   Data::staged},
      {"threads-tcp",       Control::links, Data::threads},
      {"nccl-hierarchical", Control::links, Data::nccl,    "",             "",        2,     "hierarchical"},
      {"nccl-host",         Control::links, Data::nccl,    "",             "",        2,     "host"},
      {"nccl",              Control::sim,   Data::nccl,    "",             "NCCL_"},
  });
  // clang-format on
  return all;
}

const Setup& setup_named(const std::string& name) {
  const auto found = std::ranges::find(all_setups(), name, &Setup::name);
  if (found == all_setups().end())
    throw std::runtime_error(std::string(kNames) + ": there is no backend '" + name + "'");
  return *found;
}

std::vector<Setup> every_backend() {
  if (!are_named()) return all_setups();
  std::vector<Setup> chosen;
  std::istringstream names(std::getenv(kNames));
  for (std::string name; std::getline(names, name, ',');) chosen.push_back(setup_named(name));
  return chosen;
}

std::vector<Setup> backends_for_threads() {
  const std::vector<Setup> all = every_backend();
  if (!test::kSanitized || are_named()) return all;
  std::vector<Setup> chosen;
  std::mt19937 random(seed_of_run());
  std::ranges::sample(all, std::back_inserter(chosen), std::ssize(all) / 2 + 1, random);  // keeps their order
  return chosen;
}

}  // namespace dabke::test

// The backends that a rank opens, by DABKE_CPU_OPERATIONS and by the hosts of the ranks.
#include "ops/registry.h"

#include <catch2/catch.hpp>

#include "tests/ops/rank_threads.h"

namespace dabke::test {
namespace {

struct OpeningRank : RankThread {
  OpeningRank(int rank, std::vector<std::string> hosts, std::shared_ptr<store::Store> shared,
              std::string wanted)
      : RankThread(rank, std::move(hosts), {}), store(std::move(shared)) {
    config.cpu_operations = std::move(wanted);
  }
  std::shared_ptr<store::Store> store;
};

/// For each rank, the backends that it opens, in order of preference, or why it opens none.
std::vector<std::string> opened(const std::vector<std::string>& hosts, const std::string& wanted) {
  const auto open = [](OpeningRank& self) {
    const auto made = ops::make_host_backends(self.context(self.store));
    if (!made) return made.status().message();
    std::string names;
    for (const auto& backend : *made) names += (names.empty() ? "" : " ") + std::string(backend->name());
    return names;
  };
  return run_threads<OpeningRank>(hosts, open, wanted);
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("ranks open what they are asked for and what that is put together from, in order of preference") {
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  const Names all(4, "shm hierarchical compressed tcp gloo");
  CHECK(opened(hosts, "auto") == all);
  CHECK(opened(hosts, "hierarchical") == all);
  CHECK(opened(hosts, "shm") == Names(4, "shm"));
  CHECK(opened(hosts, "tcp") == Names(4, "compressed tcp gloo"));
  CHECK(opened(hosts, "gloo") == Names(4, "compressed gloo"));
}

TEST_CASE("a backend that a rank has no use for is left out, and asked for by name an error that says why") {
  CHECK(opened(on_one_host(2), "auto") == Names(2, "shm compressed tcp gloo"));
  CHECK(opened(one_rank_a_host(2), "auto") == Names(2, "compressed tcp gloo"));
  CHECK(opened(on_one_host(2), "hierarchical") ==
        Names(2,
              "DABKE_CPU_OPERATIONS=hierarchical: the job is on one host, or no host has more than one of "
              "its ranks; leave the variable unset"));
  CHECK(
      opened(one_rank_a_host(2), "shm") ==
      Names(
          2,
          "DABKE_CPU_OPERATIONS=shm: this rank shares memory with no other rank; leave the variable unset"));
}

TEST_CASE("a single rank is served by whatever is there") {
  for (const char* const wanted : {"auto", "shm", "hierarchical", "tcp", "gloo"}) {
    CAPTURE(wanted);
    CHECK(opened({"a"}, wanted) == Names{"gloo"});
  }
}

}  // namespace dabke::test

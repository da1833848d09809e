// Jobs whose processes have different versions of NCCL, on the doubles.
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"

namespace dabke::test {
namespace {

using Catch::Contains;

/// The output of each rank of a job. Rank 2 has NCCL 2.29.3, the others have 2.32.0.
std::map<int, std::vector<std::string>> said_by_ranks(const std::vector<std::string>& variables) {
  std::vector<std::string> arguments = {
      "-np", "4", "-x", "FAKE_NCCL_VERSION@2=22903", "-x", "DABKE_FUSION_THRESHOLD=0"};
  for (const std::string& variable : variables) arguments.insert(arguments.end(), {"-x", variable});
  arguments.emplace_back(NCCL_WORKER);
  std::map<int, std::vector<std::string>> said;
  for (const std::string& line : lines_of(LauncherRun(arguments).finish().out)) {
    const std::string begin = "[", end = "]<stdout>:";
    const auto behind = line.find(end);
    if (behind == std::string::npos) continue;
    said[std::stoi(line.substr(begin.size(), behind - begin.size()))].push_back(
        line.substr(behind + end.size()));
  }
  return said;
}

}  // namespace

TEST_CASE("ranks with other versions of NCCL are told all of them, on every handle, before an id is made") {
  // A rank that made an id, or a communicator, would report another error.
  const auto said = said_by_ranks(
      {"FAKE_CUDA_PLAN=ncclGetUniqueId * 1 3;ncclCommInitRankConfig * 1 3;ncclCommInitRankConfig * 2 3"});
  REQUIRE(said.size() == 4);
  for (const auto& [rank, lines] : said) {
    CAPTURE(rank, lines);
    CHECK(lines.size() == 4);
    for (const std::string& line : lines) {
      CHECK_THAT(line, Contains("the ranks have different versions of NCCL: 2.29.3 on rank 2, 2.32.0 on "
                                "ranks 0, 1, 3; ") &&
                           Contains("DABKE_NCCL_LIBRARY"));
    }
  }
}

TEST_CASE("versions of ranks that never make a communicator with each other may differ") {
  const auto said = said_by_ranks({"DABKE_GPU_OPERATIONS=host"});
  REQUIRE(said.size() == 4);
  for (const auto& [rank, lines] : said) {
    CAPTURE(rank);
    CHECK(lines == std::vector<std::string>{"right"});
  }
}

}  // namespace dabke::test

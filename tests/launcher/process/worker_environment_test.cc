#include "launcher/process/worker_environment.h"

#include <algorithm>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;

TEST_CASE("a rank's environment has its place, the store and the knobs, and is otherwise the inherited one") {
  const JobFacts job{"http://127.0.0.1:1", "id", "key", {{"DABKE_CYCLE_TIME", "5"}}};
  auto environment =
      worker_environment({"HOME=/root", "DABKE_RANK=9", "DABKE_CYCLE_TIME=1", "DABKE_CYCLE_TIME_X=2"}, job,
                         {3, 4, 1, 2, 1, 2, "node2"});
  std::vector<std::string> expected{"HOME=/root",
                                    "DABKE_CYCLE_TIME_X=2",
                                    "DABKE_RANK=3",
                                    "HOROVOD_RANK=3",
                                    "DABKE_SIZE=4",
                                    "HOROVOD_SIZE=4",
                                    "DABKE_LOCAL_RANK=1",
                                    "HOROVOD_LOCAL_RANK=1",
                                    "DABKE_LOCAL_SIZE=2",
                                    "HOROVOD_LOCAL_SIZE=2",
                                    "DABKE_CROSS_RANK=1",
                                    "HOROVOD_CROSS_RANK=1",
                                    "DABKE_CROSS_SIZE=2",
                                    "HOROVOD_CROSS_SIZE=2",
                                    "DABKE_GATHERS_DUMPS=1",
                                    "DABKE_HOSTNAME=node2",
                                    "DABKE_RENDEZVOUS=http://127.0.0.1:1",
                                    "DABKE_JOB_ID=id",
                                    "DABKE_JOB_KEY=key",
                                    "DABKE_CYCLE_TIME=5",
                                    "PYTHONUNBUFFERED=1"};
  std::ranges::sort(environment);
  std::ranges::sort(expected);
  CHECK(environment == expected);
}

TEST_CASE("in an elastic job a process has a worker number and a local rank, and no rank") {
  const JobFacts job{
      .rendezvous = "http://127.0.0.1:1", .job_id = "id", .job_key = "key", .is_elastic = true};
  const auto environment =
      worker_environment({"DABKE_RANK=9", "HOROVOD_SIZE=4"}, job, {7, 0, 1, 2, 0, 0, "node2"});
  CHECK(variable_in(environment, "DABKE_ELASTIC_WORKER") == "7");
  CHECK(variable_in(environment, "HOROVOD_ELASTIC") == "1");
  CHECK(variable_in(environment, "HOROVOD_LOCAL_RANK") == "1");
  for (const char* const name :
       {"DABKE_RANK", "DABKE_SIZE", "DABKE_LOCAL_SIZE", "DABKE_CROSS_RANK", "HOROVOD_RANK", "HOROVOD_SIZE"})
    CHECK(variable_in(environment, name).empty());
}

TEST_CASE("PYTHONUNBUFFERED stays as the user set it") {
  const auto environment = worker_environment({"PYTHONUNBUFFERED="}, {}, {});
  CHECK(std::ranges::count_if(
            environment, [](const std::string& each) { return each.starts_with("PYTHONUNBUFFERED"); }) == 1);
  CHECK(std::ranges::count(environment, "PYTHONUNBUFFERED=") == 1);
}

}  // namespace dabke::test

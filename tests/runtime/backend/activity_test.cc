#include "runtime/backend/activity.h"

#include <string>

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("an activity of the timeline is called by the backend and the collective") {
  CHECK(std::string(activity_of<"SHM">(CollectiveKind::allreduce)) == "SHM_ALLREDUCE");
  CHECK(std::string(activity_of<"SHM">(CollectiveKind::reducescatter)) == "SHM_REDUCESCATTER");
  CHECK(std::string(activity_of<"GLOO">(CollectiveKind::broadcast)) == "GLOO_BCAST");
  CHECK(std::string(activity_of<"MPI">(CollectiveKind::allgather)) == "MPI_ALLGATHER");
  CHECK(std::string(activity_of<"MPI">(CollectiveKind::alltoall)) == "MPI_ALLTOALL");
}

TEST_CASE("what moves no data is no activity") {
  CHECK(activity_of<"TCP">(CollectiveKind::barrier) == nullptr);
  CHECK(activity_of<"TCP">(CollectiveKind::join) == nullptr);
}

}  // namespace dabke::test

#include "runtime/reports/profile.h"

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("a profile adds up batches by collective and backend, and lateness by rank") {
  reports::Profile profile;
  profile.ran({CollectiveKind::allreduce, "gloo", 3, 1000, 0.5});
  profile.ran({CollectiveKind::allreduce, "gloo", 1, 3000, 0.25});
  profile.ran({CollectiveKind::broadcast, "gloo", 1, 8, 0.125});
  profile.late(2, CollectiveKind::allreduce, 0.5);
  profile.late(2, CollectiveKind::broadcast, 0.25);
  profile.late(1, CollectiveKind::broadcast, 1);
  const auto rows = profile.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].kind == CollectiveKind::allreduce);
  CHECK(rows[0].batches == 2);
  CHECK(rows[0].tensors == 4);
  CHECK(rows[0].bytes == 4000);
  CHECK(rows[0].seconds == 0.75);
  CHECK(profile.lateness().at(2).times == 2);
  CHECK(profile.lateness().at(2).seconds == 0.75);
}

TEST_CASE(
    "the printed profile gives averages, the share of the time and the slowest rank of each collective") {
  using Catch::Contains;
  reports::Profile profile;
  profile.ran({CollectiveKind::allreduce, "gloo", 3, 1000, 0.5});
  profile.ran({CollectiveKind::allreduce, "gloo", 1, 3000, 0.5});
  profile.waited(CollectiveKind::allreduce, {2, 0.7, 0.3});
  profile.waited(CollectiveKind::allreduce, {1, 0.1, 0.1});
  profile.waited(CollectiveKind::broadcast, {1, 0.3, 0.3});
  CHECK(profile.fastest_wait() == 0.1);
  profile.late(1, CollectiveKind::broadcast, 5);
  profile.late(2, CollectiveKind::allreduce, 2);
  profile.late(0, CollectiveKind::allreduce, 1);
  profile.cache(3, 1);
  const std::string text = profile.to_text(4, 10);
  CHECK_THAT(text, Contains("dabke profile of rank 0 of 4: 10.000 s from init to shutdown\n"));
  CHECK_THAT(
      text,
      Contains(
          "allreduce      gloo             2          4         2000       1.000    500000.0   10.00      "
          "266666.7   100000.0  2 (2.000 s)\n"));
  CHECK_THAT(text, Contains("response cache: 75.0 % of 4 negotiations used it\n"));
  CHECK(text.find("rank     1: came last 1 time, after 5.000 s") < text.find("rank     2: came last 1 time"));
}

}  // namespace dabke::test

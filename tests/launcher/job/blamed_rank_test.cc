#include "launcher/job/blamed_rank.h"

#include <catch2/catch.hpp>

namespace dabke {

TEST_CASE("the rank that a survivor's log names as lost is the one it blames") {
  const std::string why = "it closed its connection (killed, or ended without dabke_shutdown)\n";
  CHECK(blamed_rank("[2026-11-22 21:38:44.922 dabke rank 0 error] rank 1 on vm: " + why, 0) == 1);
  CHECK(blamed_rank("[dabke rank 12 error] rank 7 on vm: " + why, 12) == 7);
  CHECK(blamed_rank("[dabke rank 0 error] process 12 of rank 10 on vm ended\n", 0) == 10);
  CHECK(blamed_rank("[dabke rank 0 error] allreduce 'rank x' cannot run: lost rank 3 on vm\n", 0) == 3);
}

TEST_CASE("what is not a rank's own word about the end of the job blames nobody") {
  CHECK_FALSE(blamed_rank("", 0));
  CHECK_FALSE(blamed_rank("rank 1 on vm: it closed its connection", 0));
  CHECK_FALSE(blamed_rank("[dabke rank 0 warning] rank 1 on vm has not come", 0));
  CHECK_FALSE(blamed_rank("[dabke rank 0 error] rank 1 on vm", 1));
  CHECK_FALSE(blamed_rank("[dabke rank 0 error] out of memory", 0));
  CHECK_FALSE(blamed_rank("[dabke rank 0 error] rank 99999999999 on vm", 0));
  CHECK_FALSE(blamed_rank("[app] said: dabke rank 0 error] rank 1 on vm", 0));
  CHECK_FALSE(blamed_rank("[dabke rank 0 error] rank ", 0));
}

}  // namespace dabke

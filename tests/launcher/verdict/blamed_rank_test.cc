#include "launcher/verdict/blamed_rank.h"

#include <optional>
#include <string>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

std::optional<int> blamed_rank(std::string_view line, int speaker) {
  const auto blame = blame_in(line, speaker);
  return blame ? std::optional(blame->rank) : std::nullopt;
}

}  // namespace

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

TEST_CASE(
    "what a survivor says of a rank that left early becomes the verdict, with the status that dabkerun "
    "knows") {
  const std::string advice = "; do all ranks run the same number of steps? See join()";
  const auto verdict = [](const std::string& text, bool has_ended) {
    const std::string line = "[12:00 dabke rank 0 error] " + text + "\r\n";
    const auto blame = blame_in(line, 0);
    REQUIRE(blame);
    return early_leave(blame->text, has_ended);
  };
  const std::string left =
      "rank 1 on vm left the job normally 0.3 s before, while rank 0 waits for allreduce 'x'";
  CHECK(verdict(left + advice, true) ==
        "left the job normally (status 0) 0.3 s before, while rank 0 waits for allreduce 'x'" + advice);
  CHECK(verdict(left + advice, false) ==
        "left the job normally 0.3 s before, while rank 0 waits for allreduce 'x'" + advice);
  CHECK(verdict("rank 1 on vm ended with status 0 without dabke_shutdown" + advice, true) ==
        "ended with status 0 without dabke_shutdown" + advice);
  CHECK(verdict("rank 1 on vm ended with status 0 before dabke_init, in which", true) ==
        "ended with status 0 before dabke_init, in which");
  CHECK(verdict("rank 1 on vm: it closed its connection (killed, or ended without dabke_shutdown)", true) ==
        "ended with status 0 without dabke_shutdown" + advice);
  CHECK(verdict("process 12 of rank 1 on vm ended (killed, or ended without dabke.shutdown())", true) ==
        "ended with status 0 without dabke.shutdown()" + advice);
  CHECK(verdict("rank 1 on vm: it closed its connection (killed, or ended without dabke_shutdown)", false)
            .empty());
  CHECK(verdict("rank 1 on vm aborted the job: ValueError", true).empty());
  CHECK(verdict("rank 1 on vm aborted the job: ShutDownError: " + left, false).empty());
}

}  // namespace dabke::test

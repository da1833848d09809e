// Simulated elastic jobs, and mistakes that a simulation must find.
#include "tests/sim/elastic/elastic_job.h"

#include <optional>
#include <string>

#include <catch2/catch.hpp>

#include "tests/sim/pending_tokens.h"

namespace dabke::test {
namespace {

/// The violation in the first job in which the mistake shows.
std::string first_violation(Mistake mistake) {
  constexpr unsigned kMostSeeds = 300;
  for (unsigned seed = 1; seed <= kMostSeeds; ++seed) {
    try {
      (void)run_elastic_job(seed, mistake);
    } catch (const Violation& violation) {
      return violation.what();
    }
  }
  return "nothing";
}

}  // namespace

TEST_CASE("simulated elastic jobs lose rank 0, take new ranks, let ranks go, and fence those written off") {
  ElasticResult sum;
  unsigned seed = 0;
  for (; seed < 100; ++seed) sum += run_elastic_job(seed + 1);
  CHECK(sum.epochs > 2 * seed);
  CHECK(sum.lost_roots > 10);
  CHECK(sum.newcomers > 10);
  CHECK(sum.leavers > 10);
  CHECK(sum.refusals > 1);
  CHECK(sum.ended_well > seed / 2);
}

TEST_CASE("a simulated job is the same for the same seed") {
  const ElasticResult first = run_elastic_job(4), again = run_elastic_job(4);
  CHECK(first.events == again.events);
  CHECK(first.text == again.text);
}

TEST_CASE("a simulation finds ranks that ignore the roster's word about the state") {
  CHECK_THAT(first_violation(Mistake::ignores_roster),
             Catch::Contains("has the result") || Catch::Contains("nothing is left to happen") ||
                 Catch::Contains("fails though no member was lost") || Catch::Contains("is step"));
}

TEST_CASE("a simulation finds ranks that see a change at different commits") {
  CHECK_THAT(
      first_violation(Mistake::announces_by_message),
      Catch::Contains("announced changes at commit") || Catch::Contains("fails though no member was lost"));
}

TEST_CASE("a simulation finds messages that outlive their epoch") {
  CHECK_THAT(first_violation(Mistake::links_outlive_epochs),
             Catch::Contains("fails though no member was lost") || Catch::Contains("executes") ||
                 Catch::Contains("order"));
}

TEST_CASE("a simulation finds a rank that counts a commit that it does not hold") {
  CHECK_THAT(first_violation(Mistake::counts_unfinished),
             Catch::Contains("the roster names it as a holder") ||
                 Catch::Contains("the roster does not name it as a holder"));
}

TEST_CASE("a simulation finds a newcomer that nobody takes in") {
  CHECK_THAT(first_violation(Mistake::forgets_newcomers), Catch::Contains("commits show no change"));
}

TEST_CASE("a simulation finds epochs that begin without a reason") {
  CHECK_THAT(first_violation(Mistake::counts_old_changes),
             Catch::Contains("nothing has happened to the job"));
}

TEST_CASE("a simulation finds a process that gets no answer") {
  CHECK_THAT(first_violation(Mistake::forgets_leavers),
             Catch::Contains("has ended well without an answer to process") ||
                 Catch::Contains("the job has not ended"));
}

}  // namespace dabke::test

#include "launcher/cli/flags/given_variables.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Catch::StartsWith;
using Ranges = std::vector<std::pair<int, int>>;
using Variables = std::vector<std::string>;

GivenVariable given(const std::string& text) { return parse_given_variable(text).take(); }
std::string error_of(const std::string& text) { return parse_given_variable(text).status().message(); }

}  // namespace

TEST_CASE("a variable is given by name, with a value, or to some ranks") {
  CHECK(given("A") == GivenVariable{"A", std::nullopt, {}});
  CHECK(given("A=") == GivenVariable{"A", "", {}});
  CHECK(given("A=b=c@1,2\n") == GivenVariable{"A", "b=c@1,2\n", {}});
  CHECK(given("A@0-2,5=x") == GivenVariable{"A", "x", Ranges{{0, 2}, {5, 5}}});
}

TEST_CASE("what is no variable is refused in one line with what is expected") {
  for (const std::string text : {"", "=x", "a b=1", "A@=1", "A@1", "A@2-1=x", "A@x=1", "A@-1=x", "A@1,=x"})
    CHECK_THAT(error_of(text),
               StartsWith("-x " + text + ": expected a variable as NAME, NAME=VALUE or NAME@RANKS"));
}

TEST_CASE("what dabkerun sets for each rank is refused, and its settings are not") {
  for (const std::string name : {"DABKE_RANK", "HOROVOD_LOCAL_SIZE", "DABKE_JOB_KEY", "DABKE_RENDEZVOUS"})
    CHECK(error_of(name + "=1") ==
          "-x " + name + "=1: dabkerun sets " + name + " itself, for each rank; leave it out");
  CHECK(given("DABKE_CYCLE_TIME=1").name == "DABKE_CYCLE_TIME");
}

TEST_CASE("a variable that dabkerun does not have, and a rank that the job does not have, are told") {
  CHECK(check_given_variables({given("A"), given("B=1"), given("C@0-3=1")}, {"A=1"}, 4).is_ok());
  CHECK(check_given_variables({given("A")}, {"AA=1"}, 4).message() ==
        "-x A: not set in the environment of dabkerun: set it, or give a value, as in -x A=1");
  CHECK(check_given_variables({given("A@2-4=1")}, {}, 4).message() ==
        "-x A@2-4: the job has no rank 4; its ranks are 0 to 3");
}

TEST_CASE("the last value counts, and a name alone brings what would have been left out") {
  const std::vector<GivenVariable> all{given("A=1"), given("DISPLAY"), given("A=2"), given("B@1-2=x"),
                                       given("B@2=y")};
  CHECK(with_given_variables({"A=0", "C=3"}, {"A=0", "C=3", "DISPLAY=:0"}, all) ==
        Variables{"C=3", "DISPLAY=:0", "A=2"});
  CHECK(variables_of_rank(all, 0).empty());
  CHECK(variables_of_rank(all, 1) == std::vector<std::pair<std::string, std::string>>{{"B", "x"}});
  CHECK(variables_of_rank(all, 2) ==
        std::vector<std::pair<std::string, std::string>>{{"B", "x"}, {"B", "y"}});
}

}  // namespace dabke::test

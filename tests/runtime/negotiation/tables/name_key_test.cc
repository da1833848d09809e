#include "runtime/negotiation/tables/name_key.h"

#include <limits>

#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::seconds;

namespace {

Request group_of(const std::string& name, std::vector<std::string> members) {
  Request request = plain(CollectiveKind::allreduce, name);
  for (std::string& member : members) request.tensors.push_back({std::move(member), DType::f32, Shape{4}});
  request.is_group = true;
  return request;
}

}  // namespace

TEST_CASE("a key says what it stands for, and a tensor's is its name") {
  CHECK(std::string(negotiation::NameKey(allreduce("x"))) == "x");
  CHECK(negotiation::shown("x") == "'x'");
  CHECK(negotiation::shown(std::string(negotiation::NameKey(group_of("g", {"a", "b"})))) == "group 'g'");
  CHECK(negotiation::shown(std::string(negotiation::NameKey(plain(CollectiveKind::barrier, "any")))) ==
        "barrier");
  CHECK(negotiation::group_key("g") == std::string(negotiation::NameKey(group_of("g", {"a", "b"}))));
  CHECK(negotiation::is_group_key(negotiation::group_key("group")));
  CHECK_FALSE(negotiation::is_group_key("group"));
}

TEST_CASE("tensors named like a barrier, a group or the making of a process set run beside these") {
  negotiation::Negotiator::Options options;
  options.duplicates_are_errors = GENERATE(false, true);
  SimulatedJob job(3, 1, options);
  Request add = plain(CollectiveKind::add_process_set, "add_process_set");
  add.ranks = {0, 2};
  const std::vector<Request> all = {plain(CollectiveKind::barrier, "barrier"),
                                    allreduce("barrier"),
                                    group_of("g", {"a", "b"}),
                                    allreduce("g"),
                                    add,
                                    allreduce("add_process_set"),
                                    allreduce("join")};
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < 3; ++rank) {
    for (std::size_t i = 0; i < all.size(); ++i) {  // each rank begins with another one
      tokens.push_back(job.submit(rank, all[(i + 2 * static_cast<std::size_t>(rank)) % all.size()]));
    }
  }
  job.run();
  CHECK(job.all_complete());
  for (const negotiation::Token token : tokens) {
    CAPTURE(token, job.outcome(token).status.message());
    CHECK(job.outcome(token).status.is_ok());
  }
}

TEST_CASE("the n-th barrier of a rank is the n-th of the others, also where duplicate names are errors") {
  negotiation::Negotiator::Options options;
  options.duplicates_are_errors = true;
  SimulatedJob job(2, 1, options);
  std::vector<negotiation::Token> first, second;
  for (int i = 0; i < 3; ++i) first.push_back(job.submit(0, plain(CollectiveKind::barrier, "barrier")));
  job.run();
  for (int i = 0; i < 3; ++i) {
    second.push_back(job.submit(1, plain(CollectiveKind::barrier, "barrier")));
    job.run();
    for (std::size_t j = 0; j < first.size(); ++j) {
      CAPTURE(i, j);
      CHECK(job.outcome(first[j]).completions == (static_cast<int>(j) <= i ? 1 : 0));
      CHECK(job.outcome(first[j]).status.is_ok());
    }
  }
  CHECK(job.all_complete());
}

TEST_CASE("a barrier is no member of another rank's wait for a tensor of its name") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  SimulatedJob job(2, 1, options);
  job.submit(0, plain(CollectiveKind::barrier, "barrier"));
  job.submit(1, allreduce("barrier"));
  job.run();
  job.advance(seconds(60));
  job.run();
  const std::string all = job.warnings()[0] + job.warnings()[1];
  CHECK_THAT(all, Contains("Rank 1: it waits for allreduce 'barrier' instead") &&
                      Contains("Rank 0: it waits for barrier instead"));
}

TEST_CASE("a scale that is not a number, or infinite, agrees with itself") {
  const double scale =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN(),
               std::numeric_limits<double>::infinity());
  SimulatedJob job(3);
  Request request = allreduce("x");
  request.prescale = scale;
  for (int round = 0; round < 2; ++round) {  // in full, then by its slot
    std::vector<negotiation::Token> tokens;
    for (Rank rank = 0; rank < 3; ++rank) tokens.push_back(job.submit(rank, request));
    job.run();
    for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
  }
  CHECK(job.negotiator(1).cache_counts().hits == 1);
  const negotiation::Token wrong = job.submit(0, request);
  job.submit(1, request);
  job.submit(2, allreduce("x"));
  job.run();
  CHECK_THAT(job.outcome(wrong).status.message(), StartsWith("Mismatched scale factor"));
}

}  // namespace dabke::test

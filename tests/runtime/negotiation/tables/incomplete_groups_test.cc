#include "runtime/negotiation/tables/incomplete_groups.h"

#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

using Catch::Contains;
using std::chrono::seconds;

namespace {

RequestRef member(const std::string& name) { return std::make_shared<const Request>(allreduce(name)); }

negotiation::GroupInquiry inquiry_of(std::vector<wire::GroupAnswerMessage> answers) {
  negotiation::GroupInquiry inquiry{.process_set = kWorldSet, .group = "g", .age = seconds(6)};
  for (wire::GroupAnswerMessage& answer : answers) {
    answer.rank = static_cast<Rank>(inquiry.asked.size());
    inquiry.asked.push_back(answer.rank);
    inquiry.answers[answer.rank] = answer;
  }
  return inquiry;
}

wire::GroupAnswerMessage part(std::uint32_t size, std::vector<std::string> members) {
  wire::GroupAnswerMessage answer;
  answer.size = size;
  answer.came = static_cast<std::uint32_t>(members.size());
  answer.members = std::move(members);
  return answer;
}

const negotiation::Topology kThree(3, {"ada", "bob", "cy"}, 8);

}  // namespace

TEST_CASE("members of a group that has failed fail too, until it would have been whole or begins again") {
  negotiation::IncompleteGroups groups;
  const TimePoint now{};
  CHECK(groups.add(member("a"), "g", 3, now).is_ok());
  CHECK(groups.find(kWorldSet, "g")->describe("g") == "1 of 3 members of group 'g': 'a'");
  REQUIRE(groups.fail(kWorldSet, "g", {Code::mismatch, "why"}));
  CHECK(groups.find(kWorldSet, "g") == nullptr);
  const bool begins_again = GENERATE(false, true);
  CHECK(groups.add(member("b"), "g", 3, now).code() == Code::mismatch);
  if (!begins_again) {
    CHECK(groups.add(member("c"), "g", 3, now).code() == Code::mismatch);
  }
  CHECK(groups.add(member("a"), "g", 3, now).is_ok());
  CHECK(groups.find(kWorldSet, "g")->came() == 1);
  groups.find(kWorldSet, "g")->awaited = true;
  CHECK(groups.finish(kWorldSet, "g"));
  CHECK(groups.empty());
}

TEST_CASE("only what no rank can put right any more is a mismatch of groups") {
  CHECK(negotiation::group_failure(inquiry_of({part(3, {"a", "b"}), part(3, {"a", "c"}), part(3, {"b"})}),
                                   kThree)
            .is_ok());
  CHECK(negotiation::group_failure(inquiry_of({part(3, {"a", "b"}), part(2, {"a"}), part(0, {})}), kThree)
            .is_ok());
  negotiation::GroupInquiry silent = inquiry_of({part(3, {"a"}), part(2, {"a"}), part(2, {"a"})});
  silent.answers.erase(2);
  CHECK(negotiation::group_failure(silent, kThree).is_ok());
  CHECK_THAT(
      negotiation::group_failure(inquiry_of({part(3, {"a"}), part(2, {"a"}), part(2, {"a", "b"})}), kThree)
          .message(),
      Contains("Mismatched group size for group 'g' in process set 0: ") &&
          Contains("rank 0 on ada has submitted 1 of 3 members: 'a'") &&
          Contains("rank 1 on bob has submitted 1 of 2 members: 'a'") &&
          Contains("rank 2 on cy has submitted all 2 members: 'a', 'b'"));
  CHECK_THAT(negotiation::group_failure(inquiry_of({part(2, {"a"}), part(2, {"b"}), part(2, {"c"})}), kThree)
                 .message(),
             Contains("Mismatched group members"));
  wire::GroupAnswerMessage joined;
  joined.joined = true;
  CHECK_FALSE(
      negotiation::group_failure(inquiry_of({part(3, {"a"}), part(2, {"a"}), joined}), kThree).is_ok());
}

TEST_CASE(
    "a group that one rank has refused fails once every rank has begun it, though it lacks members there") {
  wire::GroupAnswerMessage refusing = part(3, {"a"});
  refusing.refused = {Code::invalid_argument, "allreduce 'a': no data"};
  CHECK(negotiation::group_failure(inquiry_of({part(3, {"a", "b", "c"}), refusing, part(0, {})}), kThree)
            .is_ok());
  const Status failure =
      negotiation::group_failure(inquiry_of({part(3, {"a", "b", "c"}), refusing, part(3, {"b"})}), kThree);
  CHECK(failure.code() == Code::invalid_argument);
  CHECK(failure.message() ==
        "group 'g' of process set 0 cannot run: rank 1 on bob: allreduce 'a': no data. No data has moved and "
        "the job continues");
}

TEST_CASE("the text of an incomplete group tells what each rank has, and what it lacks") {
  const auto text = negotiation::incomplete_group_text(
      inquiry_of({part(3, {"a", "b"}), part(3, {"a", "c"}), part(0, {})}), kThree);
  REQUIRE(text);
  CHECK_THAT(*text, Contains("Stalled for 6.0 s: group 'g' of process set 0 is incomplete: ") &&
                        Contains("rank 0 on ada has submitted 2 of 3 members: 'a', 'b' (missing: 'c')") &&
                        Contains("rank 1 on bob has submitted 2 of 3 members: 'a', 'c' (missing: 'b')") &&
                        Contains("rank 2 on cy has submitted none of it"));
  CHECK_FALSE(
      negotiation::incomplete_group_text(inquiry_of({part(1, {"a"}), part(0, {}), part(0, {})}), kThree));
}

TEST_CASE("ranks that only take their time with a group get no error, and who differs gets one soon") {
  SimulatedJob job(3);
  const auto submit = [&](Rank rank, const std::string& name, std::uint32_t size) {
    REQUIRE(job.negotiator(rank).submit_member(member(name), "g", size, job.now()).is_ok());
  };
  const auto pass = [&](int seconds_passed) {
    for (int i = 0; i < seconds_passed; ++i) {
      job.advance(seconds(1));
      job.run();
    }
  };
  submit(0, "a", 3);
  pass(3);
  submit(1, "b", 3);
  pass(20);
  CHECK(job.negotiator(0).snapshot().groups.size() == 1);
  CHECK(job.negotiator(1).snapshot().groups.size() == 1);
  submit(2, "c", 2);
  pass(2);
  for (Rank rank = 0; rank < 3; ++rank) CHECK(job.negotiator(rank).snapshot().groups.empty());
  const Status late = job.negotiator(1).submit_member(member("a"), "g", 3, job.now());
  CHECK(late.code() == Code::mismatch);
  CHECK_THAT(late.message(), Contains("group size") && Contains("rank 2 has submitted 1 of 2 members: 'c'"));
  CHECK_FALSE(job.is_over(0));
}

TEST_CASE("an incomplete group is in the snapshot, is reported once a period and ends the job in time") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(150);
  options.topology = tree_of(4, 2, 8);  // rank 3 reports through rank 2
  options.static_sets = {{2, 3}};
  SimulatedJob job(4, 1, options);
  const ProcessSetId set = GENERATE(0, 1);
  for (const Rank rank : {2, 3}) {
    auto one = std::make_shared<const Request>(allreduce("a", {4}, set));
    const Status status = job.negotiator(rank).submit_member(one, "g", 2, job.now());
    REQUIRE(status.message() == "");
  }
  const negotiation::Snapshot snapshot = job.negotiator(3).snapshot();
  REQUIRE(snapshot.groups.size() == 1);
  CHECK(snapshot.groups[0].members == "1 of 2 members of group 'g': 'a'");
  for (int passed = 0; passed < 59; ++passed) {
    job.advance(seconds(1));
    job.run();
  }
  CHECK(job.warnings().empty());
  for (int passed = 59; passed < 119; ++passed) {
    job.advance(seconds(1));
    job.run();
  }
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0], Contains("ranks 2, 3 have submitted 1 of 2 members: 'a'"));
  for (int passed = 119; passed < 156; ++passed) {
    job.advance(seconds(1));
    job.run();
  }
  for (Rank rank = 0; rank < 4; ++rank) {
    CHECK(job.is_over(rank));
    CHECK(job.negotiator(rank).cause().code() == Code::stalled);
  }
  CHECK(job.warnings().size() == 2);  // after 60 s and 120 s
}

}  // namespace dabke::test

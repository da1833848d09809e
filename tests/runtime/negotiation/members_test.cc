// Process sets that only their members add and remove.
#include <algorithm>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "runtime/negotiation/tables/name_key.h"
#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::seconds;

namespace {

Request change(CollectiveKind kind, std::vector<Rank> ranks) {
  Request request = plain(kind, std::string(name_of(kind)));
  request.ranks = std::move(ranks);
  return request;
}

Request add(std::vector<Rank> ranks) {
  return change(CollectiveKind::add_set_among_members, std::move(ranks));
}
Request remove(std::vector<Rank> ranks) {
  return change(CollectiveKind::remove_set_among_members, std::move(ranks));
}

/// The outcome of a call of all members, which is the same on each of them.
Outcome of_members(SimulatedJob& job, const Request& request) {
  std::vector<negotiation::Token> tokens;
  for (const Rank rank : request.ranks) tokens.push_back(job.submit(rank, request));
  job.run();
  for (const negotiation::Token token : tokens) {
    REQUIRE(job.outcome(token).completions == 1);
    CHECK(job.outcome(token).value == job.outcome(tokens[0]).value);
    CHECK(job.outcome(token).status.message() == job.outcome(tokens[0]).status.message());
  }
  return job.outcome(tokens[0]);
}

Outcome of_all(SimulatedJob& job, const Request& request) {
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < job.size(); ++rank) tokens.push_back(job.submit(rank, request));
  job.run();
  return job.outcome(tokens[0]);
}

Outcome removed_by_all(SimulatedJob& job, std::int64_t id) {
  return of_all(job, change(CollectiveKind::remove_process_set, {static_cast<Rank>(id)}));
}

negotiation::Negotiator::Options in_tree(std::shared_ptr<const negotiation::Topology> tree) {
  negotiation::Negotiator::Options options;
  options.topology = std::move(tree);
  return options;
}

bool all_know(SimulatedJob& job, std::int64_t id, const std::vector<Rank>& ranks) {
  for (Rank rank = 0; rank < job.size(); ++rank) {
    const auto* const known = job.negotiator(rank).sets().ranks_of(static_cast<ProcessSetId>(id));
    if (known == nullptr || *known != ranks) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("sets that members add in different orders agree, in every tree, and all ranks know them") {
  const auto tree = GENERATE(tree_of(5, 8, 0), tree_of(5, 1, 1), tree_of(5, 2, 2), tree_of(5, 1, 2));
  const unsigned seed = GENERATE(take(10, random(1, 1 << 20)));
  CAPTURE(seed);
  SimulatedJob job(5, seed, in_tree(tree));
  const std::vector<std::vector<Rank>> sets{{0, 1}, {1, 2, 4}, {3}, {2, 3}, {1, 4}, {0, 4}};
  std::mt19937 random(seed);
  std::vector<std::pair<std::size_t, negotiation::Token>> tokens;
  for (Rank rank = 4; rank >= 0; --rank) {
    std::vector<std::size_t> order{0, 1, 2, 3, 4, 5};
    std::ranges::shuffle(order, random);
    for (const std::size_t set : order) {
      if (std::ranges::count(sets[set], rank) > 0) tokens.emplace_back(set, job.submit(rank, add(sets[set])));
    }
    if (seed % 2 == 0) job.run();
  }
  job.run();
  std::vector<std::int64_t> ids(sets.size(), -1);
  for (const auto& [set, token] : tokens) {
    REQUIRE(job.outcome(token).status.message().empty());
    REQUIRE(job.outcome(token).completions == 1);
    if (ids[set] < 0) ids[set] = job.outcome(token).value;
    CHECK(job.outcome(token).value == ids[set]);
  }
  for (std::size_t set = 0; set < sets.size(); ++set) CHECK(all_know(job, ids[set], sets[set]));
  std::ranges::sort(ids);
  CHECK(ids == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});

  const Outcome gone = of_members(job, remove({1, 2, 4}));
  CHECK(gone.status.is_ok());
  CHECK(job.negotiator(3).sets().count() == 6);
  CHECK(job.all_complete());
}

TEST_CASE("a set that is added twice among its members is one, and ends with the last removal") {
  SimulatedJob job(3);
  const std::int64_t id = of_members(job, add({0, 2})).value;
  CHECK(of_members(job, add({0, 2})).value == id);
  CHECK(of_members(job, remove({0, 2})).status.is_ok());
  REQUIRE(all_know(job, id, {0, 2}));
  const negotiation::Token inside = job.submit(0, allreduce("x", {4}, static_cast<ProcessSetId>(id)));
  job.submit(2, allreduce("x", {4}, static_cast<ProcessSetId>(id)));
  job.run();
  CHECK(job.outcome(inside).ran);
  const negotiation::Token orphan = job.submit(2, allreduce("never", {4}, static_cast<ProcessSetId>(id)));
  CHECK(of_members(job, remove({0, 2})).status.is_ok());
  CHECK(job.outcome(orphan).status.code() == Code::unknown_process_set);
  for (Rank rank = 0; rank < 3; ++rank) CHECK(job.negotiator(rank).sets().count() == 1);
  CHECK(of_members(job, remove({0, 2})).status.code() == Code::unknown_process_set);
  CHECK(of_members(job, add({0, 2})).value == id + 1);
  CHECK(job.all_complete());
}

TEST_CASE("an add over the world and adds among the members hold one set together") {
  SimulatedJob job(3);
  const Request over_world = change(CollectiveKind::add_process_set, {0, 1});
  const bool world_first = GENERATE(true, false);
  const std::int64_t id = world_first ? of_all(job, over_world).value : of_members(job, add({0, 1})).value;
  CHECK((world_first ? of_members(job, add({0, 1})) : of_all(job, over_world)).value == id);
  CHECK_THAT(of_all(job, over_world).status.message(), Contains("exists already: its id is 1"));
  const bool world_ends_first = GENERATE(true, false);
  if (world_ends_first) {
    CHECK(removed_by_all(job, id).status.is_ok());
    CHECK_THAT(removed_by_all(job, id).status.message(),
               Contains("added by its members alone, so only they"));
    REQUIRE(all_know(job, id, {0, 1}));
    CHECK(of_members(job, remove({0, 1})).status.is_ok());
  } else {
    CHECK(of_members(job, remove({0, 1})).status.is_ok());
    CHECK_THAT(of_members(job, remove({0, 1})).status.message(), Contains("not added by its members"));
    REQUIRE(all_know(job, id, {0, 1}));
    CHECK(removed_by_all(job, id).status.is_ok());
  }
  CHECK(job.negotiator(2).sets().count() == 1);
  CHECK(job.all_complete());
}

TEST_CASE("configured sets and the world are shared, and stay") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{1, 2}};
  SimulatedJob job(3, 1, options);
  CHECK(of_members(job, remove({1, 2})).status.code() == Code::invalid_argument);
  CHECK(of_members(job, add({1, 2})).value == 1);
  CHECK(of_members(job, add({0, 1, 2})).value == kWorldSet);
  CHECK(of_members(job, remove({1, 2})).status.is_ok());
  CHECK(of_members(job, remove({0, 1, 2})).status.is_ok());
  CHECK(all_know(job, 1, {1, 2}));
  CHECK(of_members(job, remove({0, 1, 2})).status.code() == Code::invalid_argument);
  CHECK(of_all(job, allreduce("x")).ran);
}

TEST_CASE("who has joined the world adds and removes sets, and is waited for") {
  const auto tree = GENERATE(tree_of(4, 8, 0), tree_of(4, 1, 1));
  SimulatedJob job(4, 1, in_tree(tree));
  const negotiation::Token joined = job.submit(3, plain(CollectiveKind::join, "join"));
  job.run();
  const negotiation::Token first = job.submit(1, add({1, 3}));
  job.run();
  CHECK(job.outcome(first).completions == 0);
  const negotiation::Token second = job.submit(3, add({1, 3}));
  job.run();
  CHECK(job.outcome(first).value == 1);
  CHECK(job.outcome(second).value == 1);
  const negotiation::Token queued = job.submit(1, add({1, 2})), again = job.submit(1, add({1, 2}));
  for (Rank rank = 0; rank < 3; ++rank) job.submit(rank, plain(CollectiveKind::join, "join"));
  job.run();
  CHECK(job.outcome(joined).completions == 1);  // calls that wait for members delay no join
  CHECK(job.outcome(queued).completions == 0);
  job.submit(2, add({1, 2}));
  job.submit(2, add({1, 2}));
  job.run();
  CHECK(job.outcome(queued).value == 2);
  CHECK(job.outcome(again).value == 2);
  CHECK(job.all_complete());
}

TEST_CASE("a stall report names the member that does not come, and no other rank") {
  const auto tree = GENERATE(tree_of(5, 8, 0), tree_of(5, 1, 1), tree_of(5, 2, 2));
  negotiation::Negotiator::Options options = in_tree(tree);
  options.stall_check = seconds(60);
  SimulatedJob job(5, 1, options);
  job.submit(1, add({1, 3, 4}));
  job.submit(4, add({1, 3, 4}));
  job.run();
  if (GENERATE(true, false)) job.submit(3, plain(CollectiveKind::join, "join"));
  job.run();
  for (int i = 0; i < 130; ++i) {
    job.advance(seconds(1));
    job.run();
  }
  const auto about = std::ranges::find_if(job.warnings(), [](const std::string& warning) {
    return warning.find("add_process_set_among_members of ranks 1,3,4") != std::string::npos;
  });
  REQUIRE(about != job.warnings().end());
  CHECK_THAT(*about, Contains("ranks 1, 4 wait in add_process_set_among_members") &&
                         Contains("; rank 3 on ") && Contains(" has not called it."));
}

TEST_CASE("a member that leaves ends what waits for it") {
  SimulatedJob job(3);
  const negotiation::Token waits = job.submit(1, add({1, 2}));
  job.run();
  job.negotiator(2).leave(job.now());
  job.advance({});
  job.run();
  CHECK(job.outcome(waits).status.code() == Code::shut_down);
}

TEST_CASE("the key of such a request is its list of ranks") {
  const Request added = add({0, 3, 12}), removed = remove({0, 3, 12});
  const std::string text = negotiation::NameKey(added);
  CHECK(negotiation::shown(text) == "add_process_set_among_members of ranks 0,3,12");
  CHECK(negotiation::members_named(text) == std::vector<Rank>{0, 3, 12});
  CHECK(text != std::string(negotiation::NameKey(removed)));
  CHECK_FALSE(negotiation::members_named("add_process_set_among_members of ranks 0,3,12"));
}

}  // namespace dabke::test

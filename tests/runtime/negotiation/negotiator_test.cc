#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a tensor runs when every rank has submitted it, and not before") {
  SimulatedJob job(3);
  const negotiation::Token first = job.submit(0, allreduce("x"));
  job.submit(1, allreduce("x"));
  job.run();
  CHECK(job.outcome(first).completions == 0);
  job.submit(2, allreduce("x"));
  job.run();
  CHECK(job.outcome(first).ran);
  CHECK(job.outcome(first).contributors == 3);
  CHECK(job.all_complete());
}

TEST_CASE("a job of one rank orders at once") {
  SimulatedJob job(1);
  CHECK(job.outcome(job.submit(0, allreduce("x"))).ran);
  CHECK(job.messages() == 0);
}

TEST_CASE("a mismatch names the tensor, both signatures and the ranks, and the next tensor works") {
  SimulatedJob job(4);
  const auto [make_b, what] = GENERATE(table<std::function<Request()>, std::string>({
      {[] { return allreduce("x", {5}); }, "shape"},
      {[] {
         Request r = allreduce("x");
         r.tensors[0].dtype = DType::f16;
         return r;
       },
       "dtype"},
      {[] {
         Request r = allreduce("x");
         r.op = ReduceOp::max;
         return r;
       },
       "reduce operation"},
      {[] {
         Request r = allreduce("x");
         r.kind = CollectiveKind::broadcast;
         return r;
       },
       "operation"},
      {[] {
         Request r = allreduce("x");
         r.prescale = 2;
         return r;
       },
       "scale factor"},
      {[] {
         Request r = allreduce("x");
         r.tensors.push_back({"y", DType::f32, Shape{1}});
         return r;
       },
       "group size"},
  }));
  std::vector<negotiation::Token> tokens;
  for (const Rank rank : {0, 1, 3}) tokens.push_back(job.submit(rank, allreduce("x")));
  tokens.push_back(job.submit(2, make_b()));
  job.run();
  for (const negotiation::Token token : tokens) {
    const Status& status = job.outcome(token).status;
    CHECK(status.code() == Code::mismatch);
    CHECK_THAT(status.message(), StartsWith("Mismatched " + what + " for 'x'"));
    CHECK_THAT(status.message(), Contains("ranks 0, 1, 3 submitted allreduce (sum) of float32 [4]"));
    CHECK_THAT(status.message(), Contains("rank 2 submitted " + make_b().describe()));
  }
  for (Rank rank = 0; rank < 4; ++rank) tokens.push_back(job.submit(rank, allreduce("x")));
  job.run();
  CHECK(job.outcome(tokens.back()).ran);
  CHECK(job.all_complete());
}

TEST_CASE("an allgather's first dimension may differ by rank, the others may not") {
  SimulatedJob job(2);
  const auto gather = [](Shape shape) {
    Request request = allreduce("g", std::move(shape));
    request.kind = CollectiveKind::allgather;
    return request;
  };
  const negotiation::Token fine = job.submit(0, gather({2, 3}));
  job.submit(1, gather({5, 3}));
  job.run();
  CHECK(job.outcome(fine).ran);
  const negotiation::Token wrong = job.submit(0, gather({2, 3}));
  job.submit(1, gather({2, 4}));
  job.run();
  CHECK_THAT(job.outcome(wrong).status.message(), StartsWith("Mismatched shape"));
}

TEST_CASE("a name that is still pending queues behind the first") {
  SimulatedJob job(2);
  const negotiation::Token first = job.submit(0, allreduce("x", {1}));
  const negotiation::Token second = job.submit(0, allreduce("x", {2}));
  job.submit(1, allreduce("x", {1}));
  job.run();
  CHECK(job.outcome(first).ran);
  CHECK(job.outcome(second).completions == 0);
  job.submit(1, allreduce("x", {2}));
  job.run();
  CHECK(job.outcome(second).ran);
  CHECK(job.all_complete());
}

TEST_CASE("a name that is still pending is an error where that was asked for, and the first goes on") {
  negotiation::Negotiator::Options options;
  options.duplicates_are_errors = true;
  SimulatedJob job(2, 1, options);
  const negotiation::Token first = job.submit(0, allreduce("x"));
  const negotiation::Token second = job.submit(0, allreduce("x"));
  CHECK(job.outcome(second).status.code() == Code::duplicate_name);
  job.submit(1, allreduce("x"));
  job.run();
  CHECK(job.outcome(first).ran);
}

TEST_CASE("while the data plane is busy orders are held back, then go out together") {
  SimulatedJob job(2);
  job.negotiator(0).set_data_plane_busy(DeviceType::host, true);
  std::vector<negotiation::Token> tokens;
  for (const char* name : {"a", "b"}) {
    for (Rank rank = 0; rank < 2; ++rank) tokens.push_back(job.submit(rank, allreduce(name)));
  }
  job.run();
  CHECK(job.negotiator(0).defers_orders());
  CHECK(job.outcome(tokens[0]).completions == 0);
  const std::size_t before = job.messages();
  job.negotiator(0).set_data_plane_busy(DeviceType::host, false);
  job.advance(milliseconds(0));
  job.run();
  CHECK(job.all_complete());
  CHECK(job.messages() == before + 1);
}

TEST_CASE("a cycle time bounds how long orders are held back") {
  negotiation::Negotiator::Options options;
  options.sequencer.linger_limit = milliseconds(5);
  SimulatedJob job(2, 1, options);
  job.negotiator(0).set_data_plane_busy(DeviceType::host, true);
  const negotiation::Token token = job.submit(0, allreduce("a"));
  job.submit(1, allreduce("a"));
  job.run();
  CHECK(job.negotiator(0).next_tick() == job.now() + milliseconds(5));
  job.advance(milliseconds(5));
  CHECK(job.outcome(token).ran);
}

TEST_CASE("higher priority comes first among what is ready at the same time") {
  SimulatedJob job(2);
  job.negotiator(0).set_data_plane_busy(DeviceType::host, true);
  for (const auto& [name, priority] : {std::pair("low", 0), {"high", 9}, {"middle", 5}}) {
    for (Rank rank = 0; rank < 2; ++rank) {
      Request request = allreduce(name);
      request.priority = priority;
      job.submit(rank, request);
    }
  }
  job.run();
  job.negotiator(0).set_data_plane_busy(DeviceType::host, false);
  job.advance(milliseconds(0));
  job.run();
  CHECK(job.executed(1) == std::vector<std::string>{"0:high", "0:middle", "0:low"});
}

TEST_CASE("a joined rank takes part without a token and does not count") {
  SimulatedJob job(3);
  const negotiation::Token joined = job.submit(2, plain(CollectiveKind::join, "join"));
  const negotiation::Token x = job.submit(0, allreduce("x"));
  job.submit(1, allreduce("x"));
  job.run();
  CHECK(job.outcome(x).ran);
  CHECK(job.outcome(x).contributors == 2);
  CHECK(job.executed(2) == std::vector<std::string>{"0:x"});
  CHECK(job.outcome(joined).completions == 0);
  const negotiation::Token early = job.submit(2, allreduce("y"));
  CHECK(job.outcome(early).status.code() == Code::invalid_argument);
  job.submit(0, plain(CollectiveKind::join, "join"));
  job.run();
  job.submit(1, plain(CollectiveKind::join, "join"));
  job.run();
  CHECK(job.outcome(joined).value == 1);
  CHECK(job.all_complete());
  const negotiation::Token after = job.submit(2, allreduce("z"));
  job.submit(0, allreduce("z"));
  job.submit(1, allreduce("z"));
  job.run();
  CHECK(job.outcome(after).contributors == 3);
}

TEST_CASE("what is queued behind its own name when a rank joins still counts as that rank's") {
  const unsigned seed = GENERATE(take(20, random(1, 1 << 20)));
  CAPTURE(seed);
  SimulatedJob job(3, seed);
  std::vector<negotiation::Token> second;
  for (Rank rank = 0; rank < 3; ++rank) {
    job.submit(rank, allreduce("a"));
    second.push_back(job.submit(rank, allreduce("a")));
  }
  job.submit(2, plain(CollectiveKind::join, "join"));
  job.run();
  for (const negotiation::Token token : second) CHECK(job.outcome(token).contributors == 3);
  const negotiation::Token third = job.submit(0, allreduce("a"));
  job.submit(1, allreduce("a"));
  job.run();
  CHECK(job.outcome(third).contributors == 2);
  for (const Rank rank : {0, 1}) job.submit(rank, plain(CollectiveKind::join, "join"));
  job.run();
  CHECK(job.all_complete());
}

TEST_CASE("ranks that join with something queued behind its own name do not wait for each other's queues") {
  const unsigned seed = GENERATE(take(20, random(1, 1 << 20)));
  const auto topology = GENERATE(tree_of(4, 4, 2), tree_of(4, 2, 2), tree_of(4, 1, 1));
  CAPTURE(seed);
  negotiation::Negotiator::Options options;
  options.topology = topology;
  SimulatedJob job(4, seed, options);
  // The queued requests of rank 1 wait for rank 3, and the other way round. Rank 2
  // takes part in both, and rank 0 in none.
  std::vector<negotiation::Token> tokens;
  for (int i = 0; i < 3; ++i) {
    for (const Rank rank : {1, 2}) tokens.push_back(job.submit(rank, allreduce("c")));
    for (const Rank rank : {3, 2}) tokens.push_back(job.submit(rank, allreduce("l")));
    job.step();
  }
  for (const Rank rank : {3, 0, 1, 2}) job.submit(rank, plain(CollectiveKind::join, "join"));
  job.run();
  CHECK(job.all_complete());
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).contributors == 2);
}

TEST_CASE("a broadcast from a joined rank is an error, not a hang") {
  SimulatedJob job(2);
  job.submit(1, plain(CollectiveKind::join, "join"));
  Request request = allreduce("w");
  request.kind = CollectiveKind::broadcast;
  request.root = 1;
  const negotiation::Token token = job.submit(0, request);
  job.run();
  CHECK_THAT(job.outcome(token).status.message(), Contains("root rank 1 has joined"));
}

TEST_CASE("process sets are added and removed in agreement, and disagreement is an error") {
  SimulatedJob job(3);
  const auto add = [](std::vector<Rank> ranks) {
    Request request = plain(CollectiveKind::add_process_set, "add_process_set");
    request.ranks = std::move(ranks);
    return request;
  };
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < 3; ++rank) tokens.push_back(job.submit(rank, add({0, 2})));
  job.run();
  const auto set = static_cast<ProcessSetId>(job.outcome(tokens[1]).value);
  CHECK(set == 1);
  for (Rank rank = 0; rank < 3; ++rank) CHECK(job.negotiator(rank).sets().contains(set, 2));
  for (Rank rank = 0; rank < 3; ++rank) tokens.push_back(job.submit(rank, add({0, 2})));
  job.run();
  CHECK_THAT(job.outcome(tokens[4]).status.message(), Contains("exists already: its id is 1"));
  for (Rank rank = 0; rank < 3; ++rank) tokens.push_back(job.submit(rank, add({0, rank == 1 ? 1 : 2})));
  job.run();
  CHECK_THAT(job.outcome(tokens[7]).status.message(), StartsWith("Mismatched process set"));

  const negotiation::Token inside = job.submit(0, allreduce("x", {4}, set));
  job.submit(2, allreduce("x", {4}, set));
  job.run();
  CHECK(job.outcome(inside).ran);
  CHECK(job.executed(1).empty());

  const negotiation::Token orphan = job.submit(0, allreduce("late", {4}, set));
  for (Rank rank = 0; rank < 3; ++rank) {
    Request request = plain(CollectiveKind::remove_process_set, "remove_process_set");
    request.ranks = {set};
    job.submit(rank, request);
  }
  job.run();
  CHECK(job.outcome(orphan).status.code() == Code::unknown_process_set);
  CHECK(job.all_complete());
}

TEST_CASE(
    "a name that is being failed as a mismatch does not run as well, when its last rank comes in the same "
    "round") {
  // The root judges the mismatch, and receives the request that completes the name, before it gives an order.
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 1}};
  options.topology = tree_of(3, 3, 8);
  SimulatedJob job(3, 1, options);
  const negotiation::Token in_set = job.submit(0, allreduce("x", {4}, 1));
  const negotiation::Token in_world = job.submit(1, allreduce("x"));
  const negotiation::Token queued = job.submit(1, allreduce("x"));
  const negotiation::Token third = job.submit(2, allreduce("x"));
  job.run();
  job.advance(milliseconds(1100));  // the root asks
  REQUIRE(job.step_link(0, 1));
  REQUIRE(job.step_link(0, 2));
  while (job.deliver(1, 0)) {
  }  // one answer
  while (job.deliver(2, 0)) {
  }                                                                // the last answer: both names must fail
  const negotiation::Token late = job.hand_in(0, allreduce("x"));  // one name is complete
  job.advance(milliseconds(0));
  job.run();
  for (const negotiation::Token token : {in_set, in_world, third, late})
    CHECK(job.outcome(token).status.code() == Code::mismatch);
  for (const Rank rank : {0, 1, 2}) CHECK(job.executed(rank).empty());
  // it waits for the other ranks, and for no rank's neutral data
  CHECK(job.outcome(queued).completions == 0);
  job.submit(0, allreduce("x"));
  job.submit(2, allreduce("x"));
  job.run();
  CHECK(job.outcome(queued).ran);
  CHECK(job.outcome(queued).contributors == 3);
  CHECK(job.all_complete());
}

TEST_CASE("a report that waits to be sent when its name is failed does not count for the name's next use") {
  negotiation::Negotiator::Options options;
  options.topology = tree_of(4, 1, 1);  // 3 reports to 2, 2 to 1, 1 to 0
  options.static_sets = {{0, 1, 2}};
  SimulatedJob job(4, 1, options);
  std::vector<negotiation::Token> failed{job.submit(0, allreduce("x", {4}, 1)), job.submit(1, allreduce("x")),
                                         job.submit(2, allreduce("x", {4}, 1)),
                                         job.submit(3, allreduce("x"))};
  job.run();
  job.advance(milliseconds(1100));
  while (job.outcome(failed[0]).completions == 0)
    REQUIRE(job.step());  // then the error is on its way to rank 1
  REQUIRE(job.outcome(failed[1]).completions == 0);
  failed.push_back(job.submit(2, allreduce("x")));
  REQUIRE(job.deliver(2, 1));  // completes the report of rank 1
  REQUIRE(job.deliver(0, 1));  // the error, in the same round
  job.advance(milliseconds(0));
  job.run();
  for (const negotiation::Token token : failed) CHECK(job.outcome(token).status.code() == Code::mismatch);
  std::vector<negotiation::Token> next;
  for (const Rank rank : {3, 2, 1, 0}) {
    next.push_back(job.submit(rank, allreduce("x")));
    job.run();
  }
  for (const negotiation::Token token : next) CHECK(job.outcome(token).ran);
  CHECK(job.all_complete());
}

TEST_CASE("overlapping process sets in a triangle do not deadlock, whatever order the ranks submit in") {
  const unsigned seed = GENERATE(take(20, random(1, 1 << 20)));
  CAPTURE(seed);
  SimulatedJob job(3, seed);
  const std::vector<std::vector<Rank>> pairs{{0, 1}, {1, 2}, {0, 2}};
  for (const auto& pair : pairs) {
    for (Rank rank = 0; rank < 3; ++rank) {
      Request request = plain(CollectiveKind::add_process_set, "add_process_set");
      request.ranks = pair;
      job.submit(rank, request);
    }
    job.run();
  }
  job.submit(0, allreduce("t", {4}, 1));
  job.submit(1, allreduce("t", {4}, 2));
  job.submit(2, allreduce("t", {4}, 3));
  job.submit(0, allreduce("t", {4}, 3));
  job.submit(1, allreduce("t", {4}, 1));
  job.submit(2, allreduce("t", {4}, 2));
  job.run();
  job.advance(seconds(5));
  CHECK(job.all_complete());
}

}  // namespace dabke::test

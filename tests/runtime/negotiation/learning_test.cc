// Learned batches: the root finds them, the ranks follow them, and they never make a rank wait for ever.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

using std::chrono::milliseconds;

negotiation::Negotiator::Options learning(std::size_t batch_bytes = 1 << 20) {
  negotiation::Negotiator::Options options;
  options.sequencer.learned_batch_bytes = batch_bytes;
  return options;
}

/// Every rank submits the names in this order. All of them complete.
void step(SimulatedJob& job, const std::vector<std::string>& names) {
  std::vector<negotiation::Token> tokens;
  for (const std::string& name : names) {
    for (Rank rank = 0; rank < job.size(); ++rank) tokens.push_back(job.submit(rank, allreduce(name)));
  }
  job.run();
  job.advance(milliseconds(50));  // the longest time for which anything is deferred
  job.run();
  for (const negotiation::Token token : tokens) REQUIRE(job.outcome(token).ran);
}

}  // namespace

TEST_CASE("after equal steps the tensors of a batch are reported together, in one message a rank") {
  SimulatedJob job(3, 1, learning());
  for (int i = 0; i < 6; ++i) step(job, {"a", "b", "c"});
  REQUIRE(job.negotiator(1).has_learned_batches());
  for (const char* name : {"a", "b"}) job.submit(1, allreduce(name));
  const std::size_t before = job.messages();
  job.submit(1, allreduce("c"));
  CHECK(job.messages() == before + 1);
  for (const char* name : {"a", "b", "c"}) {
    job.submit(0, allreduce(name));
    job.submit(2, allreduce(name));
  }
  job.run();
  CHECK(job.all_complete());
}

TEST_CASE("who waits for one of a batch gets it, though nobody has submitted the other") {
  const bool everybody_waits = GENERATE(false, true);
  CAPTURE(everybody_waits);
  SimulatedJob job(3, 1, learning());
  for (int i = 0; i < 10; ++i) step(job, {"a", "b"});
  REQUIRE(job.negotiator(2).has_learned_batches());
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < 3; ++rank) tokens.push_back(job.submit(rank, allreduce("a")));
  job.run();
  CHECK_FALSE(job.outcome(tokens[0]).ran);
  for (Rank rank = everybody_waits ? 0 : 2; rank < 3; ++rank) {
    job.negotiator(rank).want(kWorldSet, "a", job.now());
    job.advance(milliseconds(0));
  }
  job.run();  // no time passes
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
  // The next time, no rank defers it: the batch ends there.
  for (int i = 0; i < 6; ++i) step(job, {"a", "b"});
  std::vector<negotiation::Token> next;
  for (Rank rank = 0; rank < 3; ++rank) next.push_back(job.submit(rank, allreduce("a")));
  job.run();
  for (const negotiation::Token token : next) CHECK(job.outcome(token).ran);
  for (Rank rank = 0; rank < 3; ++rank) job.submit(rank, allreduce("b"));
  job.run();
  CHECK(job.all_complete());
}

TEST_CASE("a thread that waits on rank 0 makes the others let go as well") {
  SimulatedJob job(3, 1, learning());
  for (int i = 0; i < 10; ++i) step(job, {"a", "b"});
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < 3; ++rank) tokens.push_back(job.submit(rank, allreduce("a")));
  job.negotiator(0).want(kWorldSet, "a", job.now());
  job.advance(milliseconds(0));
  job.run();
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
}

TEST_CASE("who has reported the whole batch and waits for one of it makes the others let go of that one") {
  const Rank waits = GENERATE(0, 1, 2);
  const bool waits_first = GENERATE(false, true);  // before the others have submitted anything
  CAPTURE(waits, waits_first);
  SimulatedJob job(3, 1, learning());
  for (int i = 0; i < 10; ++i) step(job, {"a", "b"});
  std::vector<negotiation::Token> tokens{job.submit(waits, allreduce("a"))};
  job.submit(waits, allreduce("b"));
  const auto wait = [&] {
    job.negotiator(waits).want(kWorldSet, "a", job.now());
    job.advance(milliseconds(0));
    job.run();
  };
  if (waits_first) wait();
  for (Rank rank = 0; rank < 3; ++rank) {
    if (rank != waits) tokens.push_back(job.submit(rank, allreduce("a")));
  }
  job.run();
  if (!waits_first) {
    CHECK_FALSE(job.outcome(tokens[0]).ran);
    wait();
  }
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);  // no time has passed
  for (Rank rank = 0; rank < 3; ++rank) {
    if (rank != waits) job.submit(rank, allreduce("b"));
  }
  job.run();
  CHECK(job.all_complete());
  // Ranks are often late, so the learned batch stays.
  REQUIRE(job.negotiator(2).has_learned_batches());
  const negotiation::Token next = job.submit(0, allreduce("a"));
  for (Rank rank = 1; rank < 3; ++rank) job.submit(rank, allreduce("a"));
  job.run();
  CHECK_FALSE(job.outcome(next).ran);
}

TEST_CASE("word that somebody waits is of no effect once what is waited for has been ordered") {
  SimulatedJob job(3, 1, learning());
  for (int i = 0; i < 10; ++i) step(job, {"a", "b"});
  for (const char* name : {"a", "b"}) {
    for (Rank rank = 2; rank >= 0; --rank) job.submit(rank, allreduce(name));
  }
  while (job.step_link(2, 0) || job.step_link(1, 0)) {
  }
  job.negotiator(2).want(kWorldSet, "a", job.now());  // crosses the order
  job.advance(milliseconds(0));
  job.run();
  REQUIRE(job.all_complete());
  const negotiation::Token next = job.submit(0, allreduce("a"));
  for (Rank rank = 1; rank < 3; ++rank) job.submit(rank, allreduce("a"));
  job.run();
  CHECK_FALSE(job.outcome(next).ran);
}

TEST_CASE("what is kept back is let go when its time is over, whether anybody waits or not") {
  SimulatedJob job(2, 1, learning());
  for (int i = 0; i < 6; ++i) step(job, {"a", "b"});
  const negotiation::Token a = job.submit(0, allreduce("a"));
  job.submit(1, allreduce("a"));
  job.run();
  CHECK_FALSE(job.outcome(a).ran);
  REQUIRE(job.negotiator(1).next_tick() <= job.now() + milliseconds(20));
  job.advance(milliseconds(20));
  job.run();
  CHECK(job.outcome(a).ran);
}

TEST_CASE("a barrier, a join and a shutdown let go what is kept back") {
  const int which = GENERATE(0, 1, 2);
  SimulatedJob job(2, 1, learning());
  for (int i = 0; i < 6; ++i) step(job, {"a", "b"});
  const negotiation::Token a = job.submit(0, allreduce("a"));
  job.submit(1, allreduce("a"));
  job.run();
  for (Rank rank = 0; rank < 2; ++rank) {
    if (which == 0) job.submit(rank, plain(CollectiveKind::barrier, "barrier"));
    if (which == 1) job.submit(rank, plain(CollectiveKind::join, "join"));
    if (which == 2) job.negotiator(1 - rank).leave(job.now());
    job.advance(milliseconds(0));
    job.run();
  }
  CHECK(job.outcome(a).completions == 1);
  CHECK(job.outcome(a).ran == (which != 2 || job.outcome(a).status.is_ok()));
}

TEST_CASE("a step that differs ends what was learned, and learning begins again") {
  SimulatedJob job(2, 1, learning());
  for (int i = 0; i < 6; ++i) step(job, {"a", "b"});
  REQUIRE(job.negotiator(1).has_learned_batches());
  step(job, {"a", "b", "new"});
  CHECK_FALSE(job.negotiator(1).has_learned_batches());
  for (int i = 0; i < 6; ++i) step(job, {"a", "b", "new"});
  CHECK(job.negotiator(1).has_learned_batches());
  step(job, {"a", "new"});
  step(job, {"a", "new"});
  CHECK_FALSE(job.negotiator(1).has_learned_batches());
}

TEST_CASE("a changed shape within a learned batch is negotiated anew, and nothing waits for it") {
  SimulatedJob job(2, 1, learning());
  for (int i = 0; i < 6; ++i) step(job, {"a", "b"});
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < 2; ++rank) {
    tokens.push_back(job.submit(rank, allreduce("a")));
    tokens.push_back(job.submit(rank, allreduce("b", {77})));
  }
  job.run();
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
}

TEST_CASE("batches are cut in the order of readiness, small at first, by what can be fused") {
  negotiation::StepLearner learner(1000);
  const auto request = [](const char* name, std::int64_t elements, DType dtype = DType::f32) {
    Request r = allreduce(name, {elements});
    r.tensors[0].dtype = dtype;
    return std::make_shared<const Request>(std::move(r));
  };
  const std::vector<RequestRef> requests{request("a", 30),  request("b", 30),  request("c", 100),
                                         request("d", 100), request("e", 100), request("f", 10, DType::f16)};
  TimePoint now{};
  for (int step = 0; step < 6; ++step) {
    for (wire::Slot slot = 0; slot < requests.size(); ++slot) {
      learner.ordered(slot, requests[slot], now += std::chrono::microseconds(500));
    }
  }
  const auto change = learner.take_change();
  REQUIRE(change);
  std::vector<std::vector<wire::Slot>> cut;
  for (const wire::LearnedBatch& batch : *change) cut.push_back(batch.slots);
  CHECK(cut == std::vector<std::vector<wire::Slot>>{{0}, {1, 2, 3}, {4}, {5}});
  CHECK((*change)[1].hold_us == 2000);
  CHECK((*change)[0].hold_us == 200);
}

}  // namespace dabke::test

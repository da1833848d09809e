#include "runtime/negotiation/live_statistics.h"

#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

TEST_CASE("a look gets the figures of every rank in any tree, and costs two messages a rank") {
  const int radix = GENERATE(0, 1, 2, 3);
  const int ranks = GENERATE(1, 2, 5, 12);
  negotiation::Negotiator::Options options;
  if (radix > 0) options.topology = tree_of(ranks, radix, 1);
  SimulatedJob job(ranks, 7, options);
  job.run();
  const std::size_t before = job.messages();
  job.advance(std::chrono::seconds(100));
  job.run();
  CHECK(job.messages() == before);  // nothing is sent while nobody watches
  CHECK(job.negotiator(0).figures().empty());

  job.negotiator(0).gather_figures();
  job.advance(std::chrono::milliseconds(1));
  job.run();
  const auto& figures = job.negotiator(0).figures();
  REQUIRE(figures.size() == static_cast<std::size_t>(ranks));
  for (const auto& [rank, answer] : figures) CHECK(answer.figures.rank == rank);
  if (radix == 0) CHECK(job.messages() - before == 2 * static_cast<std::size_t>(ranks - 1));
}

TEST_CASE("a rank that stands still keeps its last figures, with the time when they came") {
  SimulatedJob job(3);
  const auto gather = [&job] {
    job.negotiator(0).gather_figures();
    job.advance(std::chrono::seconds(1));
    job.run();
  };
  gather();
  const TimePoint then = job.negotiator(0).figures().at(2).at;
  job.stop(2);
  job.advance(std::chrono::seconds(5));
  gather();
  CHECK(job.negotiator(0).figures().at(2).at == then);
  CHECK(job.negotiator(0).figures().at(1).at > then);
}

TEST_CASE("nobody is asked when the job is over") {
  SimulatedJob job(2);
  job.negotiator(1).abort({Code::aborted, "the end"});
  job.advance({});
  job.run();
  const std::size_t before = job.messages();
  job.negotiator(0).gather_figures();
  job.advance({});
  job.run();
  CHECK(job.messages() == before);
}

}  // namespace dabke::test

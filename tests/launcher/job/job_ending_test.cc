#include "launcher/job/job_ending.h"

#include <signal.h>

#include <catch2/catch.hpp>

#include "launcher/process/supervisor.h"

namespace dabke::test {
using namespace launcher;
namespace {

using namespace std::chrono_literals;

class NoReports final : public AgentReports {
 public:
  void rank_started(const AgentLink&, const StartedMessage&) override {}
  void rank_ended(const AgentLink&, const EndedMessage&) override {}
  void rank_over(const AgentLink&, int) override {}
  void states_came(const AgentLink&, const StatesMessage&) override {}
  void output_came(const AgentLink&, const OutputMessage&) override {}
  void output_ended(const AgentLink&, const OutputMessage&) override {}
  void input_taken() override {}
  void signalled(const AgentLink&, const SignalledMessage&) override {}
  void all_ready() override {}
  void agent_ready(const AgentLink&) override {}
  void start_failed(const AgentLink&) override {}
  void agent_lost(const AgentLink&, const std::vector<std::string>&, bool) override {}
};

/// A job without hosts, whose ranks have one second to end.
struct EndedJob {
  Console console{-1, -1, false};
  JobLog log{console};
  JobRanks ranks;
  NoReports reports;
  JobAgents agents{AgentStarter(RemoteShell{}), {}, log, ranks, reports};
  JobEnding ending{agents, 1000ms};
  const TimePoint now{1h};
  const TimePoint abandoned = now + abandon_after(1000ms) + 2s;
};

}  // namespace

TEST_CASE("ranks that are sent a signal are killed once their grace period is over") {
  EndedJob job;
  CHECK_FALSE(job.ending.is_under_way());
  CHECK(job.ending.deadline() == kNever);
  job.ending.interrupt(SIGTERM, 30s, job.now);
  CHECK(job.ending.is_under_way());
  CHECK(job.ending.deadline() == job.now + 30s);
  job.ending.tick(job.now + 29s);
  CHECK(job.ending.deadline() == job.now + 30s);
  job.ending.tick(job.now + 30s);
  CHECK(job.ending.deadline() == job.abandoned + 30s);
}

TEST_CASE(
    "ranks that are ended have supervisors that see to it, and agents without an answer are killed last") {
  EndedJob job;
  job.ending.interrupt(SIGTERM, 30s, job.now);
  job.ending.end(Command::kEnd, job.now);
  CHECK(job.ending.is_under_way());
  CHECK(job.ending.deadline() == job.abandoned);
  job.ending.end(Command::kKill, job.now + 1s);  // a kill extends no deadline
  CHECK(job.ending.deadline() == job.abandoned);
  job.ending.tick(job.abandoned);
  CHECK(job.ending.deadline() == kNever);
}

}  // namespace dabke::test

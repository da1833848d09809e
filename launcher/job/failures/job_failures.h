// What is done about ranks that fail or hang: their hosts are asked what the others do, the job is ended, and
// what the ranks were doing is explained.
#pragma once

#include <string_view>

#include "launcher/job/agents/job_agents.h"
#include "launcher/job/failures/failure_watch.h"
#include "launcher/job/failures/hang_watch.h"
#include "launcher/job/failures/process_survey.h"
#include "launcher/job/failures/report_gatherer.h"
#include "launcher/job/job_ending.h"
#include "launcher/job/job_log.h"
#include "launcher/job/job_ranks.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class JobFailures {
 public:
  /// Borrows all of them.
  JobFailures(FailureWatch& failure, JobLog& log, const JobRanks& ranks, JobAgents& agents,
              JobEnding& ending);
  JobFailures(const JobFailures&) = delete;  // its hang watch refers to it
  JobFailures& operator=(const JobFailures&) = delete;

  /// Dumps come from there. Without one none come.
  void watch(ReportGatherer& gatherer) { gatherer_ = &gatherer; }
  /// Takes what the gatherer has.
  void take_dumps(TimePoint now);
  /// The agent has answered for its ranks, or is lost.
  void strike(const AgentLink& agent) { survey_.strike(agent); }

  TimePoint deadline() const;
  void tick(TimePoint now);

  /// The job is over: a verdict that is due is reached from the dumps that have come.
  void conclude(TimePoint now);
  /// Where the dumps are that ranks have written, once: a later dump of a rank is in the same file.
  void log_dump_files(std::string_view indent);

 private:
  void survey(ProcessSurvey::Purpose purpose, TimePoint limit);
  void settle_failure(TimePoint now);
  void log_verdict(const HangWatch::Verdict& verdict);

  FailureWatch& failure_;
  JobLog& log_;
  const JobRanks& ranks_;
  JobAgents& agents_;
  JobEnding& ending_;
  ReportGatherer* gatherer_ = nullptr;
  HangWatch hang_;
  ProcessSurvey survey_;
  bool are_dump_files_logged_ = false;
};

}  // namespace dabke::launcher

// The handling of ranks that fail or hang. The hosts are asked what the other ranks do, the job is ended, and
// the states of the ranks are explained.
#pragma once

#include <functional>
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
  /// Returns the ranks of the job, by their numbers in dumps. In an elastic job these are the members of the
  /// current epoch.
  using CurrentRanks = std::function<JobRanks()>;
  /// Stores references to all other arguments.
  JobFailures(FailureWatch& failure, JobLog& log, CurrentRanks ranks, JobAgents& agents, JobEnding& ending);
  JobFailures(const JobFailures&) = delete;  // its hang watch refers to it
  JobFailures& operator=(const JobFailures&) = delete;

  /// Sets the source of dumps. Without one, there are no dumps.
  void watch(ReportGatherer& gatherer) { gatherer_ = &gatherer; }
  /// Takes the dumps that the gatherer has.
  void take_dumps(TimePoint now);
  /// Called when the agent has answered for its ranks, or is lost.
  void strike(const AgentLink& agent) { survey_.strike(agent); }

  TimePoint deadline() const;
  void tick(TimePoint now);

  /// Called when the job is over: a verdict that is due is reached from the dumps that have come.
  void conclude(TimePoint now);
  /// Logs once where the ranks' dumps are: a later dump of a rank is in the same file.
  void log_dump_files(std::string_view indent);

 private:
  void survey(ProcessSurvey::Purpose purpose, TimePoint limit);
  void settle_failure(TimePoint now);
  void log_verdict(const HangWatch::Verdict& verdict);

  FailureWatch& failure_;
  JobLog& log_;
  const CurrentRanks ranks_;
  JobAgents& agents_;
  JobEnding& ending_;
  ReportGatherer* gatherer_ = nullptr;
  HangWatch hang_;
  ProcessSurvey survey_;
  bool are_dump_files_logged_ = false;
};

}  // namespace dabke::launcher

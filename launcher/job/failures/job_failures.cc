#include "launcher/job/failures/job_failures.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launcher/process/supervisor.h"
#include "launcher/verdict/outcome.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// The time limit for the states of the ranks' processes.
constexpr auto kLookTime = 1s;

}  // namespace

JobFailures::JobFailures(FailureWatch& failure, JobLog& log, CurrentRanks ranks, JobAgents& agents,
                         JobEnding& ending)
    : failure_(failure),
      log_(log),
      ranks_(std::move(ranks)),
      agents_(agents),
      ending_(ending),
      hang_([this](const HangWatch::Verdict& verdict) { log_verdict(verdict); }) {}

void JobFailures::take_dumps(TimePoint now) {
  if (gatherer_ != nullptr) hang_.take(gatherer_->take_dumps(), ranks_(), now);
}

TimePoint JobFailures::deadline() const {
  const auto judge_at = survey_.is_under_way() ? std::nullopt : hang_.judge_at();
  return std::min({survey_.deadline(), failure_.look_at().value_or(kNever), judge_at.value_or(kNever)});
}

void JobFailures::tick(TimePoint now) {
  if (const auto look_at = failure_.look_at(); look_at && now >= *look_at)
    survey(ProcessSurvey::Purpose::failure, failure_.begin_look(now));
  if (const auto judge_at = hang_.judge_at(); judge_at && now >= *judge_at && !survey_.is_under_way())
    survey(ProcessSurvey::Purpose::hang, now + kLookTime);
  const auto ended = survey_.take_ended(now);
  if (ended.contains(ProcessSurvey::Purpose::failure)) settle_failure(now);
  if (ended.contains(ProcessSurvey::Purpose::hang) && hang_.judge_at()) hang_.judge(ranks_());
}

void JobFailures::conclude(TimePoint now) {
  take_dumps(now);
  if (hang_.judge_at()) hang_.judge(ranks_());
}

void JobFailures::survey(ProcessSurvey::Purpose purpose, TimePoint limit) {
  if (!survey_.is_under_way()) survey_.begin(agents_.ask_for_states());
  survey_.join(purpose, limit);
}

void JobFailures::settle_failure(TimePoint now) {
  const auto first = failure_.settle(ranks_(), now, agents_.is_srun_killed());
  if (!first) return;
  hang_.note_failure(ranks_());
  log_.log(fmt::format("rank {} on host {} (pid {}) {}; ending the other ranks", first->rank, first->host,
                       first->pid, describe(*first)));
  ending_.end(Command::kEnd, now);
}

void JobFailures::log_verdict(const HangWatch::Verdict& verdict) {
  for (std::size_t i = 0; i < verdict.size(); ++i)
    log_.log(i == 0 ? "hang: " + verdict[i] : "  " + verdict[i]);
  log_dump_files("  ");
}

void JobFailures::log_dump_files(std::string_view indent) {
  if (gatherer_ == nullptr || are_dump_files_logged_) return;
  const std::vector<std::string> paths = gatherer_->dump_files();
  if (paths.empty()) return;
  are_dump_files_logged_ = true;
  log_.log(fmt::format("{}{}", indent, diagnosis::dumps_text(paths, ranks_().size(), agents_.size() == 1)));
}

}  // namespace dabke::launcher

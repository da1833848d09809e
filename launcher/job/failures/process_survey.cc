#include "launcher/job/failures/process_survey.h"

#include <algorithm>
#include <utility>

namespace dabke::launcher {

void ProcessSurvey::join(Purpose purpose, TimePoint limit) {
  survey_->purposes.insert(purpose);
  survey_->limit = std::min(survey_->limit, limit);
}

void ProcessSurvey::strike(const AgentLink& agent) {
  if (survey_) survey_->awaited.erase(&agent);
}

ProcessSurvey::Purposes ProcessSurvey::take_ended(TimePoint now) {
  if (!survey_ || (!survey_->awaited.empty() && now < survey_->limit)) return {};
  return std::exchange(survey_, std::nullopt)->purposes;
}

}  // namespace dabke::launcher

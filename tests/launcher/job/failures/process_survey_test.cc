#include "launcher/job/failures/process_survey.h"

#include <catch2/catch.hpp>

#include "launcher/reach/agent_link.h"

namespace dabke::test {
using namespace launcher;

using namespace std::chrono_literals;
using Purpose = ProcessSurvey::Purpose;

TEST_CASE("a survey ends when every agent has answered or is lost") {
  const AgentLink a("a", {}, 1s), b("b", {}, 1s);
  const TimePoint now{1h};
  ProcessSurvey survey;
  survey.begin({&a, &b});
  survey.join(Purpose::failure, now + 1s);
  CHECK(survey.take_ended(now).empty());
  survey.strike(a);
  CHECK(survey.take_ended(now).empty());
  survey.strike(b);
  CHECK(survey.take_ended(now) == ProcessSurvey::Purposes{Purpose::failure});
  CHECK_FALSE(survey.is_under_way());
  CHECK(survey.take_ended(now).empty());
}

TEST_CASE("a survey serves all that have joined it, and ends by the earliest of their limits") {
  const AgentLink a("a", {}, 1s);
  const TimePoint now{1h};
  ProcessSurvey survey;
  CHECK(survey.deadline() == kNever);
  survey.begin({&a});
  survey.join(Purpose::hang, now + 1s);
  survey.join(Purpose::failure, now + 300ms);
  CHECK(survey.deadline() == now + 300ms);
  CHECK(survey.take_ended(now + 299ms).empty());
  CHECK(survey.take_ended(now + 300ms) == ProcessSurvey::Purposes{Purpose::failure, Purpose::hang});
}

}  // namespace dabke::test

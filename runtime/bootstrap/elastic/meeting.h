// How a process of an elastic job gets its place in an epoch. It leaves its arrival in the store that
// dabkerun serves, and dabkerun answers when the epoch's members are clear.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/bootstrap/elastic/arrival.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"
#include "runtime/store/store.h"

namespace dabke::bootstrap {

/// The place of this process in an epoch.
struct EpochPlace {
  EpochPlan plan;
  int rank = 0;
};

/// This process has left the job in good order: its host is not used any more.
struct LeftInOrder {
  std::string why;
};

using MeetingResult = std::variant<EpochPlace, LeftInOrder>;

/// Comes to the meeting in `job`, the job's part of the store, and waits for the answer. Each call needs a
/// new arrival.visit.
///   errors  aborted, if dabkerun has written this process off; timeout after `deadline`; transport
Result<MeetingResult> come_to_meeting(store::Store& job, const Arrival& arrival, TimePoint deadline);

}  // namespace dabke::bootstrap

// Reports for people.
#pragma once

#include <string>

#include "runtime/timeline/report/report.h"

namespace dabke::timeline {

/// What stands out first, then the figures.
std::string text_of(const TraceReport& report);

/// What became slower or faster from one to the other.
std::string difference_text(const TraceReport& before, const TraceReport& after);

/// The median of the steps; of all where there are none.
double step_us(const TraceReport& report);

}  // namespace dabke::timeline

// Reports for people.
#pragma once

#include <string>

#include "runtime/timeline/report/report.h"

namespace dabke::viewer {

/// What stands out first, then the figures.
std::string text_of(const timeline::TraceReport& report);

/// What became slower or faster from one to the other.
std::string difference_text(const timeline::TraceReport& before, const timeline::TraceReport& after);

/// The median of the steps; of all where there are none.
double step_us(const timeline::TraceReport& report);

}  // namespace dabke::viewer

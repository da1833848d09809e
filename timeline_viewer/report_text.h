// Reports as text for people.
#pragma once

#include <string>

#include "runtime/timeline/report/report.h"

namespace dabke::viewer {

/// Returns the findings first, then the figures.
std::string text_of(const timeline::TraceReport& report);

/// Returns what became slower or faster between the two.
std::string difference_text(const timeline::TraceReport& before, const timeline::TraceReport& after);

/// Returns the median of the steps; without steps, the whole time.
double step_us(const timeline::TraceReport& report);

}  // namespace dabke::viewer

// What the figures of a report mean, and what to do.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/timeline/report/report.h"

namespace dabke::timeline {

/// Adds the findings to a report that has all else.
void add_findings(TraceReport& report);

/// "12.3 ms"; units from ns to s.
std::string time_text(double us);

}  // namespace dabke::timeline

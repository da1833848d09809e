// The findings of a report: the meaning of its figures, with advice.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/timeline/report/report.h"

namespace dabke::timeline {

/// Adds the findings to a report that is complete otherwise.
void add_findings(TraceReport& report);

/// Returns a time with a unit from ns to s, such as "12.3 ms".
std::string time_text(double us);

}  // namespace dabke::timeline

// From the facts of a job to the figures of its report.
#pragma once

#include <string>

#include "runtime/timeline/report/report.h"
#include "runtime/timeline/report/trace_facts.h"

namespace dabke::timeline {

/// `facts` are united; steps that nobody has marked are added to them.
TraceReport report_of(TraceFacts& facts, std::string source);

}  // namespace dabke::timeline

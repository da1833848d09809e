// Computes the figures of a report from the facts of a job.
#pragma once

#include <string>

#include "runtime/timeline/report/report.h"
#include "runtime/timeline/report/trace_facts.h"

namespace dabke::timeline {

/// `facts` must be united. If no steps are marked, the steps that are inferred are added to `facts`.
TraceReport report_of(TraceFacts& facts, std::string source);

}  // namespace dabke::timeline

// Compares the communication of ranks with their computation.
#pragma once

#include "runtime/timeline/report/report.h"
#include "runtime/timeline/report/trace_facts.h"

namespace dabke::timeline {

/// Adds the comparison to the report, which has its steps by then. It needs facts that are united.
void add_overlap(const TraceFacts& facts, TraceReport& report);

}  // namespace dabke::timeline

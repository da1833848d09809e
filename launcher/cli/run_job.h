// From the plan of a job to its end.
#pragma once

#include "launcher/cli/flags/options.h"
#include "launcher/cli/job_plan.h"
#include "launcher/process/supervisor.h"

namespace dabke::launcher {

/// Does what is planned, and stays until the last rank has ended. Returns what dabkerun returns. The process
/// has one thread so far. `inherited` is from prepare_process(); ranks get it back.
int run_job(const Options& options, const JobPlan& plan, const InheritedState& inherited);

}  // namespace dabke::launcher

// The way from the plan of a job to its end.
#pragma once

#include "launcher/cli/flags/options.h"
#include "launcher/cli/job_plan.h"
#include "launcher/process/supervisor.h"

namespace dabke::launcher {

/// Runs the plan, and returns dabkerun's exit code after the last rank has ended. The process must still have
/// one thread. `inherited` is from prepare_process(); ranks get that state back.
int run_job(const Options& options, const JobPlan& plan, const InheritedState& inherited);

}  // namespace dabke::launcher

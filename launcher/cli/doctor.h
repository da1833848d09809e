// `dabkerun doctor`: examines the hosts of a job before there is one.
#pragma once

#include "launcher/cli/flags/options.h"

namespace dabke::launcher {

/// Returns dabkerun's exit code: 0 if nothing is wrong, 1 if something is, 2 if the command line is wrong.
int run_doctor(const Options& options);

}  // namespace dabke::launcher

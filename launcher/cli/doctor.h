// `dabkerun doctor`: examines the hosts of a job before there is one.
#pragma once

#include "launcher/cli/flags/options.h"

namespace dabke::launcher {

/// What dabkerun returns: 0 where nothing is wrong, 1 where something is, 2 where it was asked wrongly.
int run_doctor(const Options& options);

}  // namespace dabke::launcher

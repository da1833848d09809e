// The way from options to a finished job.
#pragma once

#include "launcher/cli/options.h"

namespace dabke {

/// Starts the ranks, stays until the last has ended, and returns what dabkerun returns. The process has one
/// thread so far.
int launch(const Options& options);

}  // namespace dabke

// The way from options to a finished job.
#pragma once

#include <string>

#include "launcher/cli/flags/options.h"

namespace dabke::launcher {

/// Starts the ranks, stays until the last has ended, and returns what dabkerun returns. The process has one
/// thread so far.
int launch(const Options& options);

/// What dabkerun returns once the text is on stdout; where it cannot be written, stderr says so.
int print_text(const std::string& text);

}  // namespace dabke::launcher

// The way from options to a finished job.
#pragma once

#include <string>

#include "launcher/cli/flags/options.h"

namespace dabke::launcher {

/// Starts the ranks, and returns dabkerun's exit code after the last rank has ended. The process must still
/// have one thread.
int launch(const Options& options);

/// Prints the text on stdout and returns dabkerun's exit code. Reports a failed write on stderr.
int print_text(const std::string& text);

}  // namespace dabke::launcher

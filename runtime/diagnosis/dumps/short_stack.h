// The position of a rank, in the few lines that interest the program's author. The dump has the rest.
#pragma once

#include <string>
#include <vector>

#include "runtime/diagnosis/dumps/dump.h"

namespace dabke::diagnosis {

/// Returns up to three innermost lines of the program's own code, such as "/home/ada/train.py:12 in
/// load_batch", and a last line on what the thread does below them. The lines are the main thread's, or
/// those of the first thread that has any. Frames of interpreters, of the C library, of installed packages
/// and of Dabke are left out.
std::vector<std::string> short_stack(const std::string& application_stack,
                                     const std::vector<Dump::Stack>& stacks);

}  // namespace dabke::diagnosis

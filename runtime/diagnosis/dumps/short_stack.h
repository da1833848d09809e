// Where a rank is, in the few lines that the program's author looks for; its dump has the rest.
#pragma once

#include <string>
#include <vector>

#include "runtime/diagnosis/dumps/dump.h"

namespace dabke::diagnosis {

/// The innermost lines of the program's own code, "/home/ada/train.py:12 in load_batch", three at most, and a
/// last one that says what the thread does below them. They are the main thread's, or those of the first
/// thread that has any. Frames of interpreters, of the C library, of installed packages and of Dabke are left
/// out. Pure.
std::vector<std::string> short_stack(const std::string& application_stack,
                                     const std::vector<Dump::Stack>& stacks);

}  // namespace dabke::diagnosis

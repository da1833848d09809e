// Decides which tensors of a program are on devices.
#pragma once

#include "program.h"

namespace storm {

/// Moves some of the program's calls to devices, and chooses how the library moves their data. All other
/// random choices of the program stay the same.
void place_on_devices(Program& program);

}  // namespace storm

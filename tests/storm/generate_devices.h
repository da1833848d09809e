// Which tensors of a program are on devices.
#pragma once

#include "program.h"

namespace storm {

/// Moves some of its calls, and says how the library moves their data. What is drawn for all else stays as it was.
void place_on_devices(Program& program);

}  // namespace storm

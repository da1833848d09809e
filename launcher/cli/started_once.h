// Checks that dabkerun was started once. If another launcher starts it several times, each one would start a
// job.
#pragma once

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

/// Returns an error if mpirun, srun, torchrun or another dabkerun has started several dabkeruns. Pure.
Status check_started_once(const Environment& environment);

}  // namespace dabke::launcher

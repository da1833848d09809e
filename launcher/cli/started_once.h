// Whether this is the only dabkerun of its job: another launcher that starts it as one of several gets as many jobs.
#pragma once

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

/// An error where mpirun, srun, torchrun or another dabkerun has started this one as one of several. Pure.
Status check_started_once(const Environment& environment);

}  // namespace dabke::launcher

// Calls with bad arguments: each must be refused at once, on this rank alone, without a trace elsewhere.
#pragma once

#include "part.h"
#include "random.h"

namespace storm {

/// Makes one such call. Any thread.
void be_refused(const Here& here, Random& random);
/// What must be refused before dabke_init and after dabke_shutdown.
void be_refused_outside();

}  // namespace storm

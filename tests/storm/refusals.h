// Calls with bad arguments. Each must be refused at once, on this rank alone, with no effect elsewhere.
#pragma once

#include "part.h"
#include "random.h"

namespace storm {

/// Makes one such call. Any thread may call it.
void be_refused(const Here& here, Random& random);
/// Makes calls that must be refused before dabke_init and after dabke_shutdown.
void be_refused_outside();

}  // namespace storm

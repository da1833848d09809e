// The element that a rank puts into a reduction.
#pragma once

#include "program.h"

namespace storm {

/// `draw`: random bits for this element on this rank; `common`: for this element on all ranks.
Bits number_for(const Call& call, Dtype dtype, std::uint64_t draw, std::uint64_t common);

}  // namespace storm

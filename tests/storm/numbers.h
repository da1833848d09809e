// The element that a rank puts into a reduction.
#pragma once

#include "program.h"

namespace storm {

/// `draw`: random bits of the element on its rank; `common`: of the element alone.
Bits number_for(const Call& call, Dtype dtype, std::uint64_t draw, std::uint64_t common);

}  // namespace storm

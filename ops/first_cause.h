// Which cause a run that failed is to tell.
#pragma once

#include "runtime/base/status.h"

namespace dabke {

/// Whether it failed by the abort of this cause. A broken connection is what an abort looks like from within a run;
/// anything else was found before it, and is the first cause.
inline bool is_of_abort(const Status& status, const Status& aborted) {
  if (aborted.is_ok()) return false;
  return status.code() == Code::transport || status.message() == aborted.message();
}

}  // namespace dabke

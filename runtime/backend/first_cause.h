// The cause that a run that failed is to tell.
#pragma once

#include "runtime/base/status.h"

namespace dabke {

/// Whether it failed by the abort of this cause. From within a run an abort is a broken connection, or its
/// own cause, before which may stand what it ended; anything else was found before it, and is the first
/// cause.
inline bool is_of_abort(const Status& status, const Status& aborted) {
  if (aborted.is_ok()) return false;
  return status.code() == Code::transport || status.message().ends_with(aborted.message());
}

}  // namespace dabke

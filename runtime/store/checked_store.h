// A store whose waits ask the program regularly whether to go on.
#pragma once

#include <memory>

#include "runtime/base/threads/wait_check.h"
#include "runtime/store/store.h"

namespace dabke::store {

/// Calls `check` only on the thread that calls this function, in get() and in trouble(), while `check` is
/// alive. Once it stops the wait, both return that error; values in the store can still be read. Other
/// threads are not held up, nor are reads without a wait. `size` is that of the job, whose ranks share the
/// store.
std::shared_ptr<Store> with_check(std::shared_ptr<Store> store, std::weak_ptr<WaitCheck> check, int size);

}  // namespace dabke::store

// A store whose waits ask the program now and then whether they are to go on.
#pragma once

#include <memory>

#include "runtime/base/threads/wait_check.h"
#include "runtime/store/store.h"

namespace dabke::store {

/// The thread that calls this asks `check`, in get() and in trouble(), while `check` lives and until it says stop; both end with
/// that then, and what is in the store can still be read. Other threads, and waits that are over sooner, are not held up.
/// `size`, of the job: its ranks share the store.
std::shared_ptr<Store> with_check(std::shared_ptr<Store> store, std::weak_ptr<WaitCheck> check, int size);

}  // namespace dabke::store

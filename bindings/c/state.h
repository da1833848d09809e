// The one runtime that stands behind the C API, and what is known of the calling thread's last error.
#pragma once

#include <functional>
#include <memory>

#include "dabke/dabke.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/core/runtime.h"

/// A handle is an operation, and the DLPack form of its outputs.
struct dabke_handle final : dabke::Operation, dabke::Pooled<dabke_handle> {
  mutable std::once_flag outputs_made;
  mutable std::vector<DLTensor> dl_outputs;
};

namespace dabke {

/// The running runtime; null before init, after shutdown and in a forked child.
std::shared_ptr<core::Runtime> current_runtime();
/// Why there is none: not_initialized, or forked.
Status no_runtime();
/// Opens a runtime; its descriptors go into the guard.
using OpenRuntime =
    std::function<Result<std::unique_ptr<core::Runtime>>(const std::shared_ptr<ForkGuard>& fork_guard)>;
/// Opens the runtime by `open`, unless there is one. An error in a function that the runtime has called.
Status start_runtime(const OpenRuntime& open);
/// The environment, with the job's key also after it has been taken out of it. Within start_runtime's `open`
/// only.
Environment environment_of_process();
/// Shuts the runtime down, if there is one. An error in a function that the runtime has called.
Status stop_runtime();

/// Says, while it lives, that the calling thread is in a function of the application that the runtime has
/// called, and waits for. Some calls would wait for themselves there; they are refused.
class InApplication {
 public:
  /// "a callback"
  explicit InApplication(const char* where);
  ~InApplication();
  InApplication(const InApplication&) = delete;
  InApplication& operator=(const InApplication&) = delete;

 private:
  const char* const before_;
};
/// An array, so that it has one address wherever it is compared.
inline constexpr char kOutputAllocator[] = "an output allocator";
inline constexpr char kWaitCheck[] = "the check of a wait";

/// An error in an output allocator and in a check of a wait: it may be the lane's thread, which is to run what it
/// would wait for.
Status may_wait();

/// What dabke_set_stack_provider sets; outlives every runtime.
std::shared_ptr<diagnosis::StackSource> stack_source();

/// What dabke_alloc gives out; outlives every runtime. A forked child has one of its own.
std::shared_ptr<shm::SharedHeap> shared_heap();

/// What the application's threads record in; outlives every runtime. A forked child has one of its own.
const std::shared_ptr<reports::ActiveTimeline>& active_timeline();

/// The status as a code; keeps its text for dabke_last_error.
dabke_status report(const Status& status) noexcept;
const char* last_error() noexcept;

/// What every function of the C API that returns a status consists of: no exception crosses the C border, and
/// every error leaves its text.
template <class Call>
dabke_status entry(Call call) noexcept {
  return report(without_exceptions([&]() -> Status { return call(); }));
}

/// What the other functions consist of, as far as they could throw: `otherwise`, when they would have.
template <class T, class Call>
T entry_or(T otherwise, Call call) noexcept {
  (void)attempt([&] { otherwise = call(); });
  return otherwise;
}

}  // namespace dabke

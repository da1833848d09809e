// The one runtime behind the C API, and each thread's last error.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "bindings/c/epoch_record.h"
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
/// The reason why there is no runtime: not_initialized or forked.
Status no_runtime();
/// The facts that the process of an elastic job keeps from epoch to epoch.
struct BetweenEpochs {
  std::optional<Environment> environment;  // of the last dabke_init; nothing before it
  std::optional<Config> config;
  bootstrap::Visit visit;
  std::shared_ptr<diagnosis::FlightRecorder> recorder;  // of all epochs
};
/// A runtime, or nothing because this process has left its elastic job.
using Opened = std::variant<std::unique_ptr<core::Runtime>, bootstrap::LeftInOrder>;
/// Opens a runtime and puts its descriptors into the guard.
using OpenRuntime =
    std::function<Result<Opened>(const std::shared_ptr<ForkGuard>& fork_guard, BetweenEpochs& kept)>;
/// Opens the runtime by `open`. An error if a runtime is open, and in a function that the runtime has called.
Status start_runtime(const OpenRuntime& open);
/// Closes the runtime if there is one, and opens the next by `open`. Returns the record of the epoch. An
/// error if the job is not elastic, before the first init, and in a function that the runtime has called.
Result<std::shared_ptr<const EpochRecord>> start_next_epoch(const OpenRuntime& open);
/// The record of the epoch in which this process has its place; null without a runtime.
std::shared_ptr<const EpochRecord> current_epoch();
/// The environment of the process. It still has the job's key after the key was taken out of the variable.
/// May be called only within `open` of start_runtime.
Environment environment_of_process();
/// Shuts the runtime down, if there is one. An error in a function that the runtime has called.
Status stop_runtime();

/// Marks, while it lives, that the calling thread is in a function of the application which the runtime has
/// called. The runtime waits for that function to return, so calls that would wait for the runtime are
/// refused.
class InApplication {
 public:
  /// `where`: the function in words, such as "a callback".
  explicit InApplication(const char* where);
  ~InApplication();
  InApplication(const InApplication&) = delete;
  InApplication& operator=(const InApplication&) = delete;

 private:
  const char* const before_;
};
/// Arrays, so that each has one address: may_wait() compares addresses.
inline constexpr char kOutputAllocator[] = "an output allocator";
inline constexpr char kWaitCheck[] = "the check of a wait";

/// An error in an output allocator and in the check of a wait. The calling thread may be the lane's, and
/// would then wait for an operation that it has to run itself.
Status may_wait();

/// The stack provider that dabke_set_stack_provider sets; outlives every runtime.
std::shared_ptr<diagnosis::StackSource> stack_source();

/// The heap of dabke_alloc; outlives every runtime. A forked child has a heap of its own.
std::shared_ptr<shm::SharedHeap> shared_heap();

/// The timeline in which the application's threads record; outlives every runtime. A forked child has a
/// timeline of its own.
const std::shared_ptr<reports::ActiveTimeline>& active_timeline();

/// Returns the status as a code, and keeps its text for dabke_last_error.
dabke_status report(const Status& status) noexcept;
const char* last_error() noexcept;

/// The body of every function of the C API that returns a status. No exception crosses the C border, and
/// every error leaves its text.
template <class Call>
dabke_status entry(Call call) noexcept {
  return report(without_exceptions([&]() -> Status { return call(); }));
}

/// The body of the other functions that could throw. Returns `otherwise` in place of an exception.
template <class T, class Call>
T entry_or(T otherwise, Call call) noexcept {
  (void)attempt([&] { otherwise = call(); });
  return otherwise;
}

}  // namespace dabke

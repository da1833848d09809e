#include "bindings/c/state.h"

#include <pthread.h>

#include <fmt/format.h>

#include "bindings/c/taken_job_key.h"
#include "runtime/base/text/utf8.h"
#include "runtime/bootstrap/place.h"

namespace dabke {
namespace {

struct State {
  // One init or shutdown at a time. The child of a fork gets a new mutex: no thread of the child would ever
  // unlock the old one.
  std::unique_ptr<std::mutex> starting = std::make_unique<std::mutex>();
  TakenJobKey job_key;  // guarded by starting, as is the next
  BetweenEpochs between_epochs;
  std::mutex mutex;  // guards the members below
  std::shared_ptr<core::Runtime> runtime;
  std::shared_ptr<const EpochRecord>
      epoch;                              // of the runtime, or of the end of this process's part in the job
  std::shared_ptr<ForkGuard> fork_guard;  // of the job, from the beginning of init to the end of shutdown
  const std::shared_ptr<diagnosis::StackSource> stacks = std::make_shared<diagnosis::StackSource>();
  std::shared_ptr<shm::SharedHeap> heap = std::make_shared<shm::SharedHeap>();
  std::shared_ptr<reports::ActiveTimeline> timeline =
      std::make_shared<reports::ActiveTimeline>();  // replaced only in the child of a fork
  bool forked = false;
};

// The only mutable variable at namespace scope. Never destroyed: a process that ends without dabke_shutdown
// must not send a goodbye, because its peers would take the loss for a clean end.
State& state = *new State;

std::string& last_error_text() {
  thread_local std::string text;
  return text;
}

/// The function of the application that this thread runs for the runtime; null outside of one.
const char*& application_function() {
  thread_local const char* where = nullptr;
  return where;
}

Status refuse_in_application(const char* call) {
  const char* const where = application_function();
  if (where == nullptr) return {};
  return {Code::invalid_argument, fmt::format("{} was called from {}, and would wait for that to return; "
                                              "call it from a thread of the application",
                                              call, where)};
}

void before_fork() { state.mutex.lock(); }
void after_fork_in_parent() { state.mutex.unlock(); }
void after_fork_in_child() {
  if (state.fork_guard) {
    state.forked = true;
    state.fork_guard->close_all_in_child();
    // The runtime's threads do not exist in the child, so the runtime can never be destroyed.
    (void)new std::shared_ptr<core::Runtime>(std::move(state.runtime));
    (void)new std::shared_ptr<ForkGuard>(std::move(state.fork_guard));
  }
  (void)state.starting.release();
  state.starting = std::make_unique<std::mutex>();
  // The allocated memory stays where it is, but only the parent frees it.
  state.heap->close_in_child();
  (void)new std::shared_ptr<shm::SharedHeap>(std::exchange(state.heap, std::make_shared<shm::SharedHeap>()));
  // The timeline's mutex may have been held, and its file has no writer thread in the child.
  (void)new std::shared_ptr<reports::ActiveTimeline>(
      std::exchange(state.timeline, std::make_shared<reports::ActiveTimeline>()));
  state.mutex.unlock();
}

/// Registered when the library is loaded, before the first init. In a child that was forked in the middle of
/// that init, the locks that init holds would otherwise stay locked for ever.
[[maybe_unused]] const int watches_forks =
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

/// Sets the state's guard of descriptors for an init, and removes it again if the init fails.
class JobOfState {
 public:
  JobOfState() {
    const std::lock_guard lock(state.mutex);
    state.fork_guard = guard_;
  }
  ~JobOfState() {
    if (kept_) return;
    const std::lock_guard lock(state.mutex);
    state.fork_guard.reset();
  }
  JobOfState(const JobOfState&) = delete;
  JobOfState& operator=(const JobOfState&) = delete;
  const std::shared_ptr<ForkGuard>& fork_guard() const { return guard_; }
  void keep() { kept_ = true; }

 private:
  const std::shared_ptr<ForkGuard> guard_ = std::make_shared<ForkGuard>();
  bool kept_ = false;
};

// The rest is called with `starting` locked.

/// Opens a runtime, and keeps it with its epoch.
Result<std::shared_ptr<const EpochRecord>> open_here(const OpenRuntime& open) {
  if (const Status none = no_runtime(); none.code() == Code::forked) return none;
  JobOfState job;
  DABKE_ASSIGN_OR_RETURN(Opened opened, open(job.fork_guard(), state.between_epochs));
  std::shared_ptr<const EpochRecord> epoch;
  std::shared_ptr<core::Runtime> runtime;
  if (auto* const left = std::get_if<bootstrap::LeftInOrder>(&opened)) {
    epoch = std::make_shared<EpochRecord>(state.between_epochs.visit.epoch, std::move(left->why));
  } else {
    runtime = std::move(std::get<std::unique_ptr<core::Runtime>>(opened));
    epoch = std::make_shared<EpochRecord>(runtime->world(), runtime->plan());
    job.keep();
  }
  const std::lock_guard lock(state.mutex);
  state.runtime = std::move(runtime);
  state.epoch = epoch;
  return epoch;
}

Status close_here(core::JobEnd end) {
  auto running = current_runtime();
  if (!running) return {};
  Status status = running->shut_down(end);
  {
    const std::lock_guard lock(state.mutex);
    state.runtime.reset();
  }
  running.reset();
  const std::lock_guard lock(state.mutex);
  state.epoch.reset();
  state.fork_guard.reset();
  return status;
}

/// True once dabke_init has been called in an elastic job, even if that failed.
bool was_initialized() { return state.between_epochs.config.has_value(); }

}  // namespace

std::shared_ptr<core::Runtime> current_runtime() {
  const std::lock_guard lock(state.mutex);
  return state.runtime;
}

Status no_runtime() {
  const std::lock_guard lock(state.mutex);
  if (state.forked) {
    return {Code::forked,
            "this process was forked from a rank of a job and is not part of it; only the parent may call, "
            "or exec a new program"};
  }
  return {Code::not_initialized, "call dabke_init first"};
}

Environment environment_of_process() { return state.job_key.take(process_environment()); }

InApplication::InApplication(const char* where) : before_(std::exchange(application_function(), where)) {}
InApplication::~InApplication() { application_function() = before_; }

Status may_wait() {
  const char* const where = application_function();
  if (where != kOutputAllocator && where != kWaitCheck) return {};
  return {Code::invalid_argument,
          fmt::format("this call waits, but was made from {}, for which all other operations may have to "
                      "wait; submit without waiting, or call from a thread of the application",
                      where)};
}

Status start_runtime(const OpenRuntime& open) {
  DABKE_RETURN_IF_ERROR(refuse_in_application("dabke_init"));  // before the lock: a shutdown may hold it
  const std::lock_guard starting(*state.starting);
  if (const auto running = current_runtime()) {
    return {Code::already_initialized, "dabke_init was called before; call dabke_shutdown first"};
  }
  DABKE_ASSIGN_OR_RETURN(const auto epoch, open_here(open));
  if (epoch->left_why().empty()) return {};
  return {Code::shut_down,
          fmt::format("this process has left the job in good order, and must end: {}", epoch->left_why())};
}

Status stop_runtime() {
  DABKE_RETURN_IF_ERROR(refuse_in_application("dabke_shutdown"));
  const std::lock_guard starting(*state.starting);
  if (const auto running = current_runtime()) {  // sets end with dabke_shutdown, and their ids stay used
    FirstSets& sets = state.between_epochs.visit.process_sets;
    sets = {{}, {}, running->process_sets().all().next_id};
  }
  return close_here(core::JobEnd::shutdown);
}

Result<std::shared_ptr<const EpochRecord>> start_next_epoch(const OpenRuntime& open) {
  DABKE_RETURN_IF_ERROR(refuse_in_application("dabke_next_epoch"));
  const std::lock_guard starting(*state.starting);
  const bool is_elastic = bootstrap::is_elastic(process_environment());
  if (const Status none = no_runtime(); none.code() == Code::forked || (is_elastic && !was_initialized()))
    return none;
  if (!is_elastic) {
    return Status(Code::unsupported,
                  "dabke_next_epoch: this job is not elastic; start it with dabkerun --min-np");
  }
  if (const auto running = current_runtime())
    state.between_epochs.visit.process_sets = running->process_sets().all();
  (void)close_here(core::JobEnd::next_epoch);  // its errors are those of the epoch that is over
  return open_here(open);
}

std::shared_ptr<const EpochRecord> current_epoch() {
  const std::lock_guard lock(state.mutex);
  return state.runtime ? state.epoch : nullptr;
}

std::shared_ptr<diagnosis::StackSource> stack_source() { return state.stacks; }

std::shared_ptr<shm::SharedHeap> shared_heap() {
  const std::lock_guard lock(state.mutex);
  return state.heap;
}

const std::shared_ptr<reports::ActiveTimeline>& active_timeline() { return state.timeline; }

dabke_status report(const Status& status) noexcept {
  if (!status.is_ok()) {
    std::string& text = last_error_text();
    if (!attempt([&] { text = escaped_utf8(status.message()); }))
      text = "out of memory";  // short enough to need no allocation
  }
  return static_cast<dabke_status>(status.code());
}

const char* last_error() noexcept { return last_error_text().c_str(); }

}  // namespace dabke

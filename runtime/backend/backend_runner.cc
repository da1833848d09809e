#include "runtime/backend/backend_runner.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "runtime/base/exceptions.h"

namespace dabke {
namespace {

// Not a semaphore, whose release is a system call even where nobody sleeps.
struct Done {
  std::atomic<bool> is_over{false};
  Status status;
  static void call(void* context, const Status& status) {
    auto* done = static_cast<Done*>(context);
    if (!status) done->status = copy_of(status);
    done->is_over.store(true, std::memory_order_release);
    done->is_over.notify_one();
  }
};

}  // namespace

BackendRunner::BackendRunner(std::vector<Backend*> backends) : backends_(std::move(backends)) {
  std::erase(backends_, nullptr);
}

BackendRunner::BackendRunner(const std::vector<std::unique_ptr<Backend>>& backends) {
  for (const auto& backend : backends) backends_.push_back(backend.get());
}

Backend* BackendRunner::find(const CallSpec& call, const Extent& extent, const ProcessSetInfo& set) const {
  const auto runs = [&](Backend* backend) {
    return backend->can_run(call, extent) && backend->can_serve(set);
  };
  const auto found = std::ranges::find_if(backends_, runs);
  return found == backends_.end() ? nullptr : *found;
}

Result<Backend*> BackendRunner::choose(const Batch& batch) {
  Backend* const backend = find(batch, extent_of(batch), *batch.process_set);
  if (backend == nullptr) {
    return Status(Code::unsupported,
                  fmt::format("no backend runs {} of {}", name_of(batch.kind), name_of(batch.dtype)));
  }
  const Key key{backend, batch.process_set->id, batch.device()};
  if (!prepared_.insert(key).second) return backend;
  const Status prepared =
      without_exceptions([&] { return backend->prepare(*batch.process_set, key.device); });
  if (prepared) return backend;
  prepared_.erase(key);
  backend->release(key.set, key.device);
  return prepared;
}

Status BackendRunner::run_on(Backend& backend, const Batch& batch) {
  Done done;
  try {
    backend.run(batch, {&Done::call, &done});
  } catch (...) {
    if (!done.is_over) return caught();  // it throws before it has given the batch to another thread
  }
  done.is_over.wait(false, std::memory_order_acquire);
  return std::move(done.status);
}

Status BackendRunner::run(const Batch& batch) {
  DABKE_ASSIGN_OR_RETURN(Backend* const backend, choose(batch));
  return run_on(*backend, batch);
}

void BackendRunner::release(ProcessSetId set) {
  std::erase_if(prepared_, [set](const Key& key) {
    if (key.set != set) return false;
    key.backend->release(set, key.device);
    return true;
  });
}

void BackendRunner::idle() {
  for (Backend* const backend : backends_) backend->idle();
}

void BackendRunner::abort(const Status& cause) {
  for (Backend* const backend : backends_) backend->abort(cause);
}

}  // namespace dabke

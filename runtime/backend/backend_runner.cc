#include "runtime/backend/backend_runner.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "runtime/backend/packer.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke {
namespace {

// Not a semaphore: its release is a system call even if no thread sleeps.
struct Done {
  std::atomic<bool> is_over{false};
  Status status;
  static void call(void* context, const Status& status) {
    auto* done = static_cast<Done*>(context);
    if (!status.is_ok()) done->status = copy_of(status);
    done->is_over.store(true, std::memory_order_release);
    done->is_over.notify_one();
  }
};

/// True if nothing moves and no backend is needed. A batch on a device is left to its lane.
bool is_alone(const Batch& batch) {
  return batch.process_set->size() == 1 && batch.device_type == DeviceType::host;
}

/// True if the run failed because of the abort with the latch's cause. A run that an abort ends fails with a
/// broken connection, or with the abort's own cause behind a prefix. Any other error was found before the
/// abort, and is the first cause.
bool is_of_abort(const Status& status, const AbortLatch& latch) {
  if (!latch.is_aborted()) return false;
  return status.code() == Code::transport || status.message().ends_with(latch.aborted().message());
}

}  // namespace

BackendRunner::BackendRunner(std::vector<Backend*> backends, ErrorPrefix prefix)
    : backends_(std::move(backends)), prefix_(prefix) {
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

Result<Backend*> BackendRunner::choose(const Batch& batch) const {
  Backend* const backend = find(batch, extent_of(batch), *batch.process_set);
  if (backend == nullptr) {
    return Status(Code::unsupported,
                  fmt::format("no backend can run {} of {}", name_of(batch.kind), name_of(batch.dtype)));
  }
  return backend;
}

Status BackendRunner::run_on(Backend& backend, const Batch& batch) {
  if (aborted_.is_aborted()) return aborted_.aborted();
  if (is_alone(batch)) return run_alone(batch);
  DABKE_RETURN_IF_ERROR(prepare(backend, batch));
  Status status = await(backend, batch);
  return status.is_ok() ? Status() : fail(backend, batch, std::move(status));
}

Status BackendRunner::start_on(Backend& backend, const Batch& batch, Completion done) {
  if (aborted_.is_aborted()) return aborted_.aborted();
  DABKE_RETURN_IF_ERROR(prepare(backend, batch));
  backend.run(batch, done);
  return {};
}

Status BackendRunner::prepare(Backend& backend, const Batch& batch) {
  if (!ended_.empty()) {
    const auto ended = ended_.find(whole_of(batch.process_set->id));
    if (ended != ended_.end()) return copy_of(ended->second);
  }
  const Key key{&backend, batch.process_set->id, batch.device()};
  if (last_ == nullptr || last_->first != key) {
    const auto [row, is_first] = prepared_.try_emplace(key);
    last_ = &*row;
    if (is_first) {
      Status status = without_exceptions([&] { return backend.prepare(*batch.process_set, key.device); });
      if (status.is_ok()) return {};
      last_->second.holds = false;
      attempt([&] { backend.release(key.set, key.device); });
      return fail(backend, batch, std::move(status));
    }
  }
  return last_->second.ended;
}

Status BackendRunner::fail(Backend& backend, const Batch& batch, Status status) {
  status = explained(backend, batch, std::move(status));
  const auto row = prepared_.find({&backend, batch.process_set->id, batch.device()});
  if (row != prepared_.end() && row->second.ended.is_ok()) row->second.ended = copy_of(status);
  return status;
}

Status BackendRunner::await(Backend& backend, const Batch& batch) {
  Done done;
  try {
    backend.run(batch, {&Done::call, &done});
  } catch (...) {
    if (!done.is_over) return caught();  // run() throws only before it has given the batch to another thread
  }
  done.is_over.wait(false, std::memory_order_acquire);
  return std::move(done.status);
}

/// Without memory for a longer text, the status stays as it is.
Status BackendRunner::explained(const Backend& backend, const Batch& batch, Status status) const {
  attempt([&] {
    if (is_of_abort(status, aborted_)) {
      status = Status(aborted_.aborted());
    } else if (prefix_ == ErrorPrefix::batch) {
      status = {status.code(), fmt::format("{} {}: {}", backend.name(), describe(batch), status.message())};
    } else {
      status = {status.code(), fmt::format("{}: {}", backend.name(), status.message())};
    }
  });
  return status;
}

Status BackendRunner::run(const Batch& batch) {
  DABKE_ASSIGN_OR_RETURN(Backend* const backend, choose(batch));
  return run_on(*backend, batch);
}

void BackendRunner::end(ProcessSetId set, const Status& cause) {
  attempt([&] { ended_.try_emplace(set, cause); });
}

void BackendRunner::release(ProcessSetId set) {
  last_ = nullptr;
  ended_.erase(set);
  std::erase_if(prepared_, [set](const auto& row) {
    const auto& [key, prepared] = row;
    if (key.set != set && whole_of(key.set) != set) return false;
    if (prepared.holds) key.backend->release(key.set, key.device);
    return true;
  });
}

void BackendRunner::idle() {
  for (Backend* const backend : backends_) backend->idle();
}

void BackendRunner::abort(const Status& cause) {
  aborted_.abort(cause);
  for (Backend* const backend : backends_) backend->abort(cause);
}

}  // namespace dabke

// Runs batches on the first of several backends that can, and does once what all of them need. Each lane has
// one, over the backends of the registry, and a backend that is put together from others one over those.
//
//   sets of one   run here: no backend is prepared for one, or sees its batches
//   prepare       comes before the first batch of a process set on a backend and a device
//   failures      a prepare or run that failed is the last of that set there: every later batch ends with the
//                 same cause, without the backend, until the set is released. What a failed prepare has left
//                 is given back at once.
//   first cause   a run that an abort has ended says the abort's cause and no more. Before any other stands
//                 what failed: "tcp allreduce of 2 tensors (order 5), rank 1 of 2 in process set 0: ..."
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/base/threads/abort_latch.h"

namespace dabke {

class BackendRunner {
 public:
  /// What stands before an error: the batch too, or the backend alone where the batch is a part of another,
  /// whose own runner tells the rest.
  enum class ErrorPrefix : bool { batch, backend };

  /// Takes backends in order of preference, owned by others; null ones are left out.
  explicit BackendRunner(std::vector<Backend*> backends, ErrorPrefix prefix = ErrorPrefix::batch);
  explicit BackendRunner(const std::vector<std::unique_ptr<Backend>>& backends);

  /// The first that can run it and serves the set; null when none does. From any thread.
  Backend* find(const CallSpec& call, const Extent& extent, const ProcessSetInfo& set) const;
  /// The one for this batch; all ranks of the set come to the same.
  Result<Backend*> choose(const Batch& batch) const;
  /// Runs it there, and waits.
  Status run_on(Backend& backend, const Batch& batch);
  Status run(const Batch& batch);

  // For a lane that does not wait for the end.
  /// Before the first batch of the set there, by start_on() or earlier; else what has ended it, if anything.
  Status prepare(Backend& backend, const Batch& batch);
  /// Hands it over. `done`, and all that comes after it, is the caller's.
  Status start_on(Backend& backend, const Batch& batch, Completion done);
  /// What a batch that was handed over, and has failed, ends with.
  Status fail(Backend& backend, const Batch& batch, Status status);

  /// This rank has left out a batch of the set that other ranks run, so whatever comes behind it, also in
  /// the set's parts, would be out of step with them: it ends with `cause`.
  void end(ProcessSetId set, const Status& cause);
  /// The set is gone, with its parts: on all backends and devices.
  void release(ProcessSetId set);
  void idle();
  /// May be called from any thread: what runs, and all later, ends with `cause`. The first cause stays.
  void abort(const Status& cause);
  /// ok, or the cause. From any thread.
  const Status& aborted() const { return aborted_.aborted(); }

 private:
  /// What is prepared, and fails, apart from others.
  struct Key {
    Backend* backend;
    ProcessSetId set;
    Device device;
    auto operator<=>(const Key&) const = default;
  };

  struct Prepared {
    bool holds = true;  // false after a failed prepare
    Status ended;       // what every later batch ends with, once one has failed
  };

  static Status await(Backend& backend, const Batch& batch);
  Status explained(const Backend& backend, const Batch& batch, Status status) const;

  std::vector<Backend*> backends_;
  const ErrorPrefix prefix_ = ErrorPrefix::batch;
  std::map<Key, Prepared> prepared_;
  std::map<ProcessSetId, Status> ended_;
  std::pair<const Key, Prepared>* last_ = nullptr;  // the row of the batch before: this one's too, as a rule
  AbortLatch aborted_;
};

}  // namespace dabke

// Runs batches on the first backend that can run them, and does once what all backends need. Each lane has a
// runner over the backends of the registry. A backend that is composed of other backends has a runner over
// those.
//
//   sets of one   run here: no backend is prepared for such a set, or sees its batches
//   prepare       comes before the first batch of a process set on a backend and a device
//   failures      a failed prepare or run is the set's last on that backend and device. Every later batch
//                 ends with the same cause, without the backend, until the set is released. After a failed
//                 prepare, what it has left is given back at once.
//   first cause   a run that an abort has ended reports the abort's cause and nothing else. Every other error
//                 is prefixed: "tcp allreduce of 2 tensors (order 5), rank 1 of 2 in process set 0: ..."
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
  /// The prefix of an error: the backend and the batch, or the backend alone. The latter is for a batch that
  /// is a part of another batch, whose own runner adds the rest.
  enum class ErrorPrefix : bool { batch, backend };

  /// Takes backends in order of preference, which others own. Null pointers are left out.
  explicit BackendRunner(std::vector<Backend*> backends, ErrorPrefix prefix = ErrorPrefix::batch);
  explicit BackendRunner(const std::vector<std::unique_ptr<Backend>>& backends);

  /// Returns the first backend that can run the call and serves the set; null if none does. From any thread.
  Backend* find(const CallSpec& call, const Extent& extent, const ProcessSetInfo& set) const;
  /// Returns the backend for this batch. All ranks of the set choose the same.
  Result<Backend*> choose(const Batch& batch) const;
  /// Runs the batch on the backend, and waits for its end.
  Status run_on(Backend& backend, const Batch& batch);
  Status run(const Batch& batch);

  // For a lane that does not wait for the end.
  /// Prepares the backend before the set's first batch there; start_on() calls it too. Returns the error
  /// that has ended the set on this backend, if there is one.
  Status prepare(Backend& backend, const Batch& batch);
  /// Hands the batch over. The caller deals with `done` and all that follows.
  Status start_on(Backend& backend, const Batch& batch, Completion done);
  /// Returns the error with which a batch ends that was handed over and has failed.
  Status fail(Backend& backend, const Batch& batch, Status status);

  /// Called when this rank has left out a batch of the set that other ranks run. All later batches of the set
  /// and of its parts would be out of step with those ranks, so they end with `cause`.
  void end(ProcessSetId set, const Status& cause);
  /// Releases the set and its parts on all backends and devices. Called when the set is gone.
  void release(ProcessSetId set);
  void idle();
  /// May be called from any thread. The current run, and all later ones, end with `cause`. The first cause
  /// stays.
  void abort(const Status& cause);
  /// The cause of the abort; ok if there was none. From any thread.
  const Status& aborted() const { return aborted_.aborted(); }

 private:
  /// The unit that is prepared, and that fails, independently of others.
  struct Key {
    Backend* backend;
    ProcessSetId set;
    Device device;
    auto operator<=>(const Key&) const = default;
  };

  struct Prepared {
    bool holds = true;  // false after a failed prepare
    Status ended;       // the error of every later batch, once one has failed
  };

  static Status await(Backend& backend, const Batch& batch);
  Status explained(const Backend& backend, const Batch& batch, Status status) const;

  std::vector<Backend*> backends_;
  const ErrorPrefix prefix_ = ErrorPrefix::batch;
  std::map<Key, Prepared> prepared_;
  std::map<ProcessSetId, Status> ended_;
  std::pair<const Key, Prepared>* last_ = nullptr;  // the row of the previous batch, which most batches share
  AbortLatch aborted_;
};

}  // namespace dabke

// A data backend between threads of one process, over plain memory, for tests.
//
// Each rank gives the hub a copy of its inputs, waits for the copies of all others, and computes its
// outputs from them in rank order. So no rank ever reads memory that another rank may free. The
// backend also checks what the runtime promises to every backend: all ranks run the same batches in
// the same order, and their counts match.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/backend/backend.h"

namespace dabke::test {

/// A rank whose first number is this fails in its run, as if the backend had failed.
inline constexpr double kFailingNumber = -31.4159;

/// The state that the ranks of one job share.
class ThreadsHub {
 public:
  /// One rank's part of one batch.
  struct Deposit {
    std::string signature;  // must be equal on every rank
    std::vector<std::vector<std::byte>> inputs;
    std::vector<std::vector<std::int64_t>> receive_counts;
    std::vector<std::vector<std::int64_t>> send_counts;
  };
  using Deposits = std::vector<std::shared_ptr<const Deposit>>;  // by rank within the set

  /// Leaves `mine`, and waits for the other ranks of the set or until `cause` is an error.
  Result<Deposits> exchange(const ProcessSetInfo& set, std::uint64_t round,
                            std::shared_ptr<const Deposit> mine, const Status& cause);
  /// Sets `cause`, unless it is an error already, and ends the waits that watch it.
  void abort(Status& cause, const Status& with);

 private:
  struct Round {
    Deposits deposits;
    int came = 0;
    int went = 0;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  // The ranks are a part of the key, because the parts of a set on each host have one id.
  std::map<std::tuple<ProcessSetId, std::vector<dabke::Rank>, std::uint64_t>, Round> rounds_;
};

/// Runs a batch on host memory, in order with the other batches of its set, which
/// `round` counts. The hub guards `aborted`.
Status run_among_threads(const Batch& batch, std::uint64_t round, ThreadsHub& hub, const Status& aborted);

class ThreadsBackend final : public Backend {
 public:
  explicit ThreadsBackend(std::shared_ptr<ThreadsHub> hub) : hub_(std::move(hub)) {}

  std::string_view name() const override { return "threads"; }
  bool can_run(const CallSpec& call, const Extent&) const override {
    return call.device_type == DeviceType::host;
  }
  Status prepare(const ProcessSetInfo& set, Device device) override;
  void run(const Batch& batch, Completion done) override;
  void release(ProcessSetId set, Device device) override;
  void abort(const Status& cause) override { hub_->abort(aborted_, cause); }

 private:
  Status run(const Batch& batch);

  std::shared_ptr<ThreadsHub> hub_;
  std::map<ProcessSetId, std::uint64_t> rounds_;  // of the prepared sets
  Status aborted_;                                // guarded by the hub
};

}  // namespace dabke::test

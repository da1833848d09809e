// The lane of one device: a thread that prepares, enqueues and watches events; nobody else calls the device, but for
// memory. Several batches may be on their way; they end in the order in which they were pushed.
//
// What becomes of a run, in steps that the two lanes take in turn; most runs have those of the device alone:
//   1. host    where the backend wants an id for a new set: the ranks compare the versions of its library
//   2. device  the set's first rank makes the id
//   3. host    all ranks get it; they tell each other their row counts (allgather, alltoall)
//   4. device  waits for the inputs' events, makes the outputs; where the set needs larger buffers to pack in, which its
//              ranks have alike, waits until all that came before has ended, and takes some (SymmetricMemory)
//   5. host    the ranks agree which outputs have memory everywhere (output_verdict.h), or whether all have such buffers
//   6. device  copies the inputs to the host, where the host is to run the batch; where it is to run the middle of it
//              alone (sliced_batch.h), enqueues what comes before, and copies this rank's slice
//   7. host    runs that there
//   8. device  enqueues the batch; or copies the outputs back, and enqueues what comes after
//   9. device  looks at the event behind all of that until it is reached: the run has ended
// The host's steps of a run are one part in the host's lane, which it enters when the run is handed over, before the
// next run; it waits there for the device. So every communicator of the host sees the same order on every rank.
//
// Who runs a batch follows from what the ranks have agreed on (choose() in device_lane_hosts.cc):
//   device        a backend of the device; the host what no such backend can run
//   hierarchical  the same within a host. Of several hosts with several ranks each the device's backend runs allreduce and
//                 broadcast inside the hosts, and the host between them; all else the host runs alone, so no
//                 communicator of the device spans hosts
//   host          the host
//   direct        the same; of an allreduce and a broadcast the host's backend is given copies in the device's own memory, so
//                 that 6 and 8 copy within the device
//
// A run that a backend of the device runs alone begins and ends on one of the device's further streams, where there are some
// (DeviceStream::sides), in turn; its collective is on the lane's, in the lane's order (Batch::ordered).
//
// After an abort a run ends when its device has come to its end. A device that for kAbandonAfter comes to the end of none is
// given up: the memory of what it has is kept for as long as the process lives, because the device may still write to it.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/backend/backend_runner.h"
#include "runtime/backend/device_backend.h"
#include "runtime/backend/fusion_buffer.h"
#include "runtime/backend/host_layout.h"
#include "runtime/lanes/host_lane.h"

namespace dabke {

class DeviceLane final : public Lane {
 public:
  static constexpr Duration kAbandonAfter = std::chrono::seconds(5);

  /// `backends` are those of the device's type, in order of preference; `leaders` as host_layout.h has them. All outlives
  /// the lane; the host's lane is stopped after it.
  DeviceLane(std::shared_ptr<DeviceStream> stream, const std::vector<DeviceBackend*>& backends,
             const std::vector<Rank>& leaders, HostLane& host, LaneObserver& observer, Log log);
  ~DeviceLane() override;

  /// Called once, before the first run.
  Status start();
  DeviceStream& stream() { return *stream_; }
  void push(std::unique_ptr<Run> run) override;
  std::size_t outstanding() const override { return outstanding_.load(); }
  bool is_busy() const override { return outstanding() >= kBusyRuns; }
  std::optional<LaneClock::Look> running() const override { return running_.look(); }
  void abort(const Status& cause) override;
  void stop() override;

 private:
  // Enough that the device never waits for the host.
  static constexpr std::size_t kBusyRuns = 4;
  struct Flight;

  // ---- by whoever pushes
  void choose(Flight& flight);
  void choose_stream(Flight& flight);
  std::shared_ptr<const HostedSet> hosts_of(const ProcessSetInfo& set);
  std::size_t growth(const Flight& flight);

  // ---- the host's steps, on its lane's thread
  void run_on_host(Flight& flight, BackendRunner& host);
  Status take_host_steps(Flight& flight, BackendRunner& host);
  static Status compare_versions(const Flight& flight, BackendRunner& host);
  static Status compare_memory(Flight& flight, BackendRunner& host);

  // ---- the device's, on the lane's own
  void loop();
  void work();
  bool advance(Flight& flight);
  Status step(Flight& flight);
  Status make_id(Flight& flight);
  Status build(Flight& flight);
  Status wait_for_inputs(Flight& flight);
  bool is_oldest(const Flight& flight) const { return flights_.front().get() == &flight; }
  static void take_id(Flight& flight);
  Status grow(Flight& flight);
  Status slice(Flight& flight);
  Status widen(Flight& flight);
  Status narrow(Flight& flight);
  Status stage(Flight& flight);
  Status stage_on_device(Flight& flight);
  Status unstage_on_device(const Flight& flight);
  Status launch(Flight& flight);
  Status start(Flight& flight);
  Status record_behind(Flight& flight);
  Status record_end(Flight& flight);
  Status look(Flight& flight);
  bool give_up(Flight& flight);
  void abandon(const std::shared_ptr<Flight>& flight);
  void begin(Flight& flight);
  void end(const std::shared_ptr<Flight>& flight, const Status& status);
  void end_front();
  bool wait_a_little(int& looks);
  void give_back_memory();
  Status aborted();

  const std::shared_ptr<DeviceStream> stream_;
  BackendRunner runner_;
  const std::vector<Rank>& leaders_;
  HostLane& host_;
  LaneObserver& observer_;
  const Log log_;
  LaneClock running_;
  std::map<ProcessSetId, std::shared_ptr<const HostedSet>> hosted_;  // by whoever pushes, as the next one
  std::set<std::pair<const Backend*, ProcessSetId>> with_id_;
  std::map<ProcessSetId, std::size_t> alike_;  // bytes that each set's ranks have for packing, or try to have
  std::size_t next_side_ = 0;
  std::vector<std::int64_t> elements_;           // of the run that is pushed
  FusionBuffer wide_;                            // the thread's, as the next two
  std::unique_ptr<FusionBuffer> direct_;         // what MPI is given; left to it for good after a failure
  std::deque<std::shared_ptr<Flight>> flights_;  // the thread's: the oldest first
  TimePoint went_on_at_{};  // when the device last came to the end of one that had failed
  std::mutex mutex_;        // all below, and what lanes tell each other of a flight
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Flight>> pushed_;
  bool has_news_ = false;
  bool said_idle_ = false;  // the thread's
  bool stopping_ = false;
  Status aborted_;
  TimePoint abandon_at_ = kNever;
  std::atomic<std::size_t> outstanding_{0};
  std::jthread thread_;
};

}  // namespace dabke

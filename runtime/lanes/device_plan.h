// The plan of a batch of tensors on a device: which parts the device's own backend runs, and which the host
// runs.
//
// The plan follows from what the ranks have agreed on (CallSpec::device_route) and from where the ranks are.
// So all ranks make the same plan:
//   device        a backend of the device; the host runs what no such backend can run
//   hierarchical  the same within a host. If there are several hosts with several ranks each, the device's
//                 backend runs allreduce and broadcast inside the hosts, and the host runs them between the
//                 hosts. All else the host runs alone, so no communicator of the device spans hosts.
//   host          the host
//   direct        the host; for an allreduce and a broadcast its backend gets copies in the device's own
//                 memory
//
// A batch that a backend of the device runs alone begins and ends on one of the device's further streams, if
// there are any (DeviceStream::sides), in turn. Its collective is on the lane's stream, in the lane's order
// (Batch::ordered).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/backend/backend_runner.h"
#include "runtime/backend/device_backend.h"
#include "runtime/backend/host_layout.h"
#include "runtime/lanes/run.h"

namespace dabke::lanes {

struct DevicePlan {
  DeviceBackend* backend = nullptr;         // null if the host runs all of it
  std::shared_ptr<const HostedSet> hosted;  // null if the device's backend runs all or nothing
  bool is_direct = false;                   // the host's backend gets memory of the device
  bool needs_id = false;                    // the set's communicator is new to the backend
  std::size_t grows_to = 0;        // bytes that the set's symmetric memory must have; 0: there is enough
  DeviceStream* stream = nullptr;  // on which the batch begins and ends: the lane's, or another

  /// True if the host runs all of the batch, or its middle.
  bool host_runs() const { return hosted != nullptr || backend == nullptr; }
  /// The ranks among which the device's backend runs its part of a batch of `set`.
  const ProcessSetInfo& ranks_of_device(const ProcessSetInfo& set) const {
    return hosted != nullptr ? hosted->inside : set;
  }
};

/// Plans the runs of one lane, in order. Called by the thread that pushes them.
class DevicePlanner {
 public:
  /// `runner` has only backends of the stream's device, and `leaders` are as in host_layout.h. All arguments
  /// outlive it.
  DevicePlanner(DeviceStream& stream, const BackendRunner& runner, const std::vector<Rank>& leaders)
      : stream_(stream), runner_(runner), leaders_(leaders) {}

  DevicePlan plan(const Run& run);
  /// Called when the set is gone: another set of the same number is new.
  void release(ProcessSetId set);

 private:
  void choose(const Run& run, DevicePlan& plan);
  DeviceStream& stream_for(const Run& run, const DevicePlan& plan);
  std::shared_ptr<const HostedSet> hosts_of(const ProcessSetInfo& set);
  std::size_t growth(const Run& run, const DevicePlan& plan);

  DeviceStream& stream_;
  const BackendRunner& runner_;
  const std::vector<Rank>& leaders_;
  std::map<ProcessSetId, std::shared_ptr<const HostedSet>> hosted_;
  std::set<std::pair<const Backend*, ProcessSetId>> with_id_;
  std::map<ProcessSetId, std::size_t> symmetric_;  // bytes that each set has, or tries to get
  std::size_t next_side_ = 0;
  std::vector<std::int64_t> elements_;  // of the run that is planned
};

}  // namespace dabke::lanes

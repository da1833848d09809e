// The plan of a batch of tensors on a device: which parts its own backend runs, and which the host.
//
// All of it follows from what the ranks have agreed on (CallSpec::device_route) and from where they are, so
// all ranks come to the same plan:
//   device        a backend of the device; the host what no such backend can run
//   hierarchical  the same within a host. Of several hosts with several ranks each the device's backend runs allreduce and
//                 broadcast inside the hosts, and the host between them; all else the host runs alone, so no
//                 communicator of the device spans hosts
//   host          the host
//   direct        the same; of an allreduce and a broadcast the host's backend is given copies in the device's own memory
//
// A batch that a backend of the device runs alone begins and ends on one of the device's further streams,
// where there are some (DeviceStream::sides), in turn; its collective is on the lane's, in the lane's order
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
  DeviceBackend* backend = nullptr;         // null: the host runs all of it
  std::shared_ptr<const HostedSet> hosted;  // null: the device's backend runs all of it, or nothing
  bool is_direct = false;                   // the host's backend is given memory of the device
  bool needs_id = false;                    // the set's communicator is new to the backend
  std::size_t grows_to = 0;        // bytes that the set's symmetric memory has to grow to; 0: there is enough
  DeviceStream* stream = nullptr;  // on which it begins and ends: the lane's, or another

  /// Whether the host runs all of it, or its middle.
  bool host_runs() const { return hosted != nullptr || backend == nullptr; }
  /// The ranks among which the device's backend runs its part of a batch of `set`.
  const ProcessSetInfo& ranks_of_device(const ProcessSetInfo& set) const {
    return hosted != nullptr ? hosted->inside : set;
  }
};

/// Plans the runs of one lane, in order, by whoever pushes them.
class DevicePlanner {
 public:
  /// `runner` has backends of the stream's device alone; `leaders` as host_layout.h has them. All outlive it.
  DevicePlanner(DeviceStream& stream, const BackendRunner& runner, const std::vector<Rank>& leaders)
      : stream_(stream), runner_(runner), leaders_(leaders) {}

  DevicePlan plan(const Run& run);
  /// The set is gone: another one of its number is new.
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
  std::map<ProcessSetId, std::size_t> symmetric_;  // bytes that each set has, or tries to have
  std::size_t next_side_ = 0;
  std::vector<std::int64_t> elements_;  // of the run that is planned
};

}  // namespace dabke::lanes

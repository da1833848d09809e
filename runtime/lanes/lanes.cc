#include "runtime/lanes/lanes.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::lanes {

Lanes::Lanes(const Backends& backends, OpenDevice open_device, std::span<const std::string> hosts,
             LaneObserver& observer, Log log)
    : backends_(backends),
      open_device_(std::move(open_device)),
      leaders_(leaders_by_name(hosts)),
      observer_(observer),
      log_(std::move(log)),
      host_(backends.host, observer) {}

std::vector<DeviceBackend*> Lanes::backends_of(DeviceType type) const {
  std::vector<DeviceBackend*> those;
  for (const auto& backend : backends_.device) {
    if (backend->device_type() == type) those.push_back(backend.get());
  }
  return those;
}

Status Lanes::open(Device device, ProcessSetId set) {
  const std::lock_guard opening(opening_mutex_);
  const std::pair key(device.type, device.index);
  bool is_open = false;
  {
    const std::lock_guard lock(mutex_);
    const auto used = used_.find({set, device.type});
    if (used != used_.end() && used->second != device.index) {
      return {
          Code::invalid_argument,
          fmt::format(
              "it is on {}, but this rank's other tensors of process set {} are on {}. A rank uses one "
              "device of a type in a process set: copy the tensor there, or add another set of these ranks",
              device.to_string(), set, Device{device.type, used->second}.to_string())};
    }
    is_open = devices_.contains(key);
  }
  if (!is_open) DABKE_RETURN_IF_ERROR(open(device));
  const std::lock_guard lock(mutex_);
  used_.emplace(std::pair(set, device.type), device.index);
  return {};
}

/// May take long, so it holds no lock that the coordinator needs.
Status Lanes::open(Device device) {
  if (!open_device_) {
    return {Code::unsupported,
            fmt::format("it is on {}, and this build has no backend for device memory; copy it to "
                        "the host",
                        device.to_string())};
  }
  DABKE_ASSIGN_OR_RETURN(auto stream, open_device_(device));
  auto lane = std::make_unique<DeviceLane>(std::move(stream), backends_of(device.type), leaders_, host_,
                                           observer_, log_);
  DABKE_RETURN_IF_ERROR(lane->start());
  const std::lock_guard lock(mutex_);
  if (!aborted_.is_ok()) lane->abort(aborted_);
  devices_.emplace(std::pair(device.type, device.index), std::move(lane));
  has_devices_ = true;
  return {};
}

DeviceStream& Lanes::stream_of(Device device) {
  if (device.type == DeviceType::host) return host_stream();
  const std::lock_guard lock(mutex_);
  return devices_.at({device.type, device.index})->stream();
}

bool Lanes::can_run(const CallSpec& call) const {
  CallSpec staged = call;
  staged.device_type = DeviceType::host;
  return std::ranges::any_of(backends_.device, [&](const auto& one) { return one->can_run(call, {}); }) ||
         std::ranges::any_of(backends_.host, [&](const auto& one) { return one->can_run(staged, {}); });
}

DeviceTypes Lanes::served() {
  DeviceTypes types = {DeviceType::host};
  for_each_device([&](DeviceLane& lane) { types.insert(lane.stream().device().type); });
  return types;
}

/// Returns the lane of the run's own tensors. If the rank has joined and has none in the run, returns the
/// lane that it uses in this set, or any.
DeviceLane& Lanes::lane_of(const Run& run) {
  const DeviceType type = run.batch.device_type;
  const auto own =
      std::ranges::find_if(run.tensors, [](const RunTensor& one) { return one.operation != nullptr; });
  const std::lock_guard lock(mutex_);
  if (own != run.tensors.end()) {
    const Device device = own->operation->inputs[own->index].device;
    return *devices_.at({device.type, device.index});
  }
  if (const auto used = used_.find({run.process_set->id, type}); used != used_.end())
    return *devices_.at({type, used->second});
  return *std::ranges::find_if(devices_, [&](const auto& row) { return row.first.first == type; })->second;
}

void Lanes::push(std::unique_ptr<Run> run) {
  if (!run->is_release()) {
    if (run->batch.device_type == DeviceType::host) return host_.push(std::move(run));
    return lane_of(*run).push(std::move(run));
  }
  for_each_device([&](DeviceLane& lane) {
    auto release = std::make_unique<Run>();
    release->process_set = run->process_set;
    lane.push(std::move(release));
  });
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(used_, [&](const auto& row) { return row.first.first == run->process_set->id; });
  }
  host_.push(std::move(run));
}

bool Lanes::is_busy(DeviceType type) {
  if (type == DeviceType::host) return host_.is_busy();
  bool any = false;
  for_each_device(
      [&](DeviceLane& lane) { any = any || (lane.stream().device().type == type && lane.is_busy()); });
  return any;
}

std::size_t Lanes::outstanding() {
  std::size_t all = host_.outstanding();
  for_each_device([&](DeviceLane& lane) { all += lane.outstanding(); });
  return all;
}

std::optional<LaneClock::Running> Lanes::running() {
  auto longest = host_.running();
  for_each_device([&](DeviceLane& lane) {
    const auto running = lane.running();
    if (running && (!longest || running->since < longest->since)) longest = running;
  });
  return longest;
}

void Lanes::abort(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.is_ok()) aborted_ = Status(cause);  // before the lanes: a lane that opens now reads it
  }
  host_.abort(cause);
  for_each_device([&](DeviceLane& lane) { lane.abort(cause); });
}

void Lanes::stop() {
  for_each_device([](DeviceLane& lane) { lane.stop(); });
  host_.stop();
}

}  // namespace dabke::lanes

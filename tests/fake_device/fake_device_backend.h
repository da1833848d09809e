// Collectives between fake devices of the ranks of one process, as NCCL between GPUs. A communicator needs
// the id that the first rank of the set has made. An enqueued collective blocks its stream until those of all
// ranks have come.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/backend/activity.h"
#include "runtime/backend/device_backend.h"
#include "runtime/backend/packer.h"
#include "tests/fake_device/fake_device.h"
#include "tests/in_process/threads_backend.h"

namespace dabke::test {

class FakeDeviceBackend final : public DeviceBackend, private IdExchange {
 public:
  explicit FakeDeviceBackend(std::shared_ptr<ThreadsHub> hub) : hub_(std::move(hub)) {}

  std::string_view name() const override { return "fake"; }
  DeviceType device_type() const override { return DeviceType::cuda; }
  /// True for all dtypes but 16-bit integers, which run on the host.
  bool can_run(const CallSpec& call, const Extent&) const override {
    return call.device_type == DeviceType::cuda && call.dtype != DType::i16 && call.dtype != DType::u16;
  }
  Status prepare(const ProcessSetInfo& set, Device device) override;
  void run(const Batch& batch, Completion done) override;
  void release(ProcessSetId set, Device device) override;
  Status poll() override;
  void abort(const Status& cause) override;
  IdExchange* id_exchange() override { return this; }

 private:
  using Id = std::uint64_t;
  struct Communicator {
    Id id = 0;
    bool is_prepared = false;
    std::uint64_t rounds = 0;
  };
  std::size_t id_bytes() const override { return sizeof(Id); }
  Result<std::uint32_t> library_version() override { return std::uint32_t{0}; }
  Status check_versions(const ProcessSetInfo&, std::span<const std::uint32_t>) const override { return {}; }
  Status make_id(const ProcessSetInfo& set, std::span<std::byte> id) override;
  void take_id(const ProcessSetInfo& set, std::span<const std::byte> id) override;
  Status enqueue(const Batch& batch);

  std::shared_ptr<ThreadsHub> hub_;
  std::map<ProcessSetId, Communicator> communicators_;
  std::map<DeviceStream*, Packer> packers_;
  std::minstd_rand random_{7};
  Completion later_;  // called in some later poll()
  int polls_left_ = 0;
  Status aborted_;  // guarded by the hub
  std::mutex error_mutex_;
  Status error_;  // the error of a collective on a stream
};

}  // namespace dabke::test

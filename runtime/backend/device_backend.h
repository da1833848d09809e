// All that the runtime knows of a backend of tensors on devices, beside what each backend is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"

namespace dabke {

/// The exchange by which the ranks of a set come to one communicator: its first rank makes an id, and all of
/// them get it before the set is prepared. The host's lane carries the versions and the id.
class IdExchange {
 public:
  virtual ~IdExchange() = default;
  virtual std::size_t id_bytes() const = 0;
  /// The version of the library on this rank. On the host's lane.
  virtual Result<std::uint32_t> library_version() = 0;
  /// `versions`: those of all ranks, in set order, before an id is made. An error, the same on all ranks: the
  /// versions do not go together.
  virtual Status check_versions(const ProcessSetInfo& set, std::span<const std::uint32_t> versions) const = 0;
  /// Makes the id, on the set's first rank.
  virtual Status make_id(const ProcessSetInfo& set, std::span<std::byte> id) = 0;
  /// Takes the id, on all ranks, before the set is prepared.
  virtual void take_id(const ProcessSetInfo& set, std::span<const std::byte> id) = 0;
};

/// Memory to pack tensors in that is registered with the communicator on each rank of a set, with equal
/// sizes. Before a batch that needs more of it than there is, once the set is prepared and all that came
/// before has ended on the device:
///   1. each rank takes memory of the communicator, or fails to
///   2. the host's lane agrees whether each of the ranks has some
///   3. each rank uses that, or memory of its own, which needs nobody's consent
class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;
  /// Bytes of symmetric memory that the batch needs, computed only from facts that all ranks share; 0 if it
  /// needs none. `elements`: those of each of its tensors.
  virtual std::size_t bytes_for(const Batch& batch, std::span<const std::int64_t> elements) const = 0;
  /// Step 1. Memory that the set had before is gone.
  virtual bool take(const ProcessSetInfo& set, DeviceStream& stream, std::size_t bytes) = 0;
  /// Step 3. `is_symmetric`: whether each rank has some.
  virtual void use(const ProcessSetInfo& set, bool is_symmetric) = 0;
};

class DeviceBackend : public Backend {
 public:
  /// The type of the devices whose lanes run it.
  virtual DeviceType device_type() const = 0;
  /// Whether run() finds all memory that it needs. Where it does not, run() is called once all that came
  /// before has ended on the device: to take memory may wait for that, and that for another rank.
  virtual bool has_room_for(const Batch& batch) {
    (void)batch;
    return true;
  }
  /// Called by a device's lane again and again while a batch is on its way: for what is enqueued later than
  /// run() returns, and for errors that a library reports only when asked. An error fails the batch.
  virtual Status poll() { return {}; }
  /// Null where communicators need no id.
  virtual IdExchange* id_exchange() { return nullptr; }
  /// Null where no memory is symmetric.
  virtual SymmetricMemory* symmetric_memory() { return nullptr; }
};

/// The backends of a rank, each kind in order of preference.
struct Backends {
  std::vector<std::unique_ptr<Backend>> host;
  std::vector<std::unique_ptr<DeviceBackend>> device;
};

}  // namespace dabke

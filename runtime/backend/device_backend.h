// The interface of a backend for tensors on devices: all that the runtime uses of one beyond `Backend`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"

namespace dabke {

/// The exchange that gives the ranks of a set one communicator. The set's first rank makes an id, and all
/// ranks receive it before the set is prepared. The host's lane carries the library versions and the id.
class IdExchange {
 public:
  virtual ~IdExchange() = default;
  virtual std::size_t id_bytes() const = 0;
  /// Returns the version of the library on this rank. Called on the host's lane.
  virtual Result<std::uint32_t> library_version() = 0;
  /// Called before an id is made, with the versions of all ranks in set order. Returns an error, the same on
  /// all ranks, if the versions are incompatible.
  virtual Status check_versions(const ProcessSetInfo& set, std::span<const std::uint32_t> versions) const = 0;
  /// Makes the id. Called on the set's first rank.
  virtual Status make_id(const ProcessSetInfo& set, std::span<std::byte> id) = 0;
  /// Takes the id. Called on all ranks, before the set is prepared.
  virtual void take_id(const ProcessSetInfo& set, std::span<const std::byte> id) = 0;
};

/// Memory for packed tensors that is registered with the communicator on each rank of a set, with equal
/// sizes. A batch may need more of this memory than the set has. Then three steps run before that batch, once
/// the set is prepared and all earlier work on the device has ended:
///   1. each rank takes memory from the communicator, or fails to
///   2. the host's lane agrees whether every rank has this memory
///   3. each rank uses this memory, or its own ordinary memory, which needs no agreement
class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;
  /// Bytes of symmetric memory that the batch needs, computed only from facts that all ranks share; 0 if it
  /// needs none. `elements` holds the number of elements of each tensor.
  virtual std::size_t bytes_for(const Batch& batch, std::span<const std::int64_t> elements) const = 0;
  /// Step 1. Returns true if this rank has the memory. The memory that the set had before is gone.
  virtual bool take(const ProcessSetInfo& set, DeviceStream& stream, std::size_t bytes) = 0;
  /// Step 3. `is_symmetric` is true if every rank has the memory.
  virtual void use(const ProcessSetInfo& set, bool is_symmetric) = 0;
};

class DeviceBackend : public Backend {
 public:
  /// The type of the devices whose lanes run this backend.
  virtual DeviceType device_type() const = 0;
  /// True if run() finds all memory that it needs. If false, run() is called only when all earlier work on
  /// the device has ended. Taking memory may wait for that work, and that work may wait for another rank.
  virtual bool has_room_for(const Batch& batch) {
    (void)batch;
    return true;
  }
  /// Called by a device's lane repeatedly while a batch is in flight. Does the work that is enqueued after
  /// run() has returned, and finds errors that a library reports only when asked. An error fails the batch.
  virtual Status poll() { return {}; }
  /// Null if communicators need no id.
  virtual IdExchange* id_exchange() { return nullptr; }
  /// Null if no memory is symmetric.
  virtual SymmetricMemory* symmetric_memory() { return nullptr; }
};

/// The backends of a rank, each kind in order of preference.
struct Backends {
  std::vector<std::unique_ptr<Backend>> host;
  std::vector<std::unique_ptr<DeviceBackend>> device;
};

}  // namespace dabke

// What a rank asks for: one tensor, or a group that is ordered as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/kinds.h"
#include "runtime/base/one_or_many.h"
#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/base/world.h"

namespace dabke {

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t size_bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Within a process set a request is known by its name: the tensor's, or that of the group (name_key.h).
struct Request {
  std::string name;
  ProcessSetId process_set = kWorldSet;
  CollectiveKind kind = CollectiveKind::allreduce;
  ReduceOp op = ReduceOp::sum;  // average stays average here
  DeviceType device = DeviceType::host;
  Rank root = 0;  // broadcast; a world rank
  std::int32_t priority = 0;
  std::uint8_t compression = 0;
  double prescale = 1;
  double postscale = 1;
  OneOrMany<TensorSpec> tensors;  // none for barrier, join and process sets
  std::vector<Rank> ranks;        // add_process_set: the new set; remove_process_set: the set's id, alone
  std::string refused;            // why this rank cannot run it, so that none does; empty: it can
  bool is_group =
      false;  // members come one by one: of a member, and of the whole, whose `name` is the group's

  std::size_t size_bytes() const;
  /// "allreduce (average) of float32 [2, 3]", "broadcast from rank 1 of ...", "group of 3: ..."; for
  /// messages.
  std::string describe() const;
};

using RequestRef = std::shared_ptr<const Request>;

/// A factor that is not a number is the same as another such: what it makes of the data is the same.
bool same_scale(double a, double b);

/// What two ranks' requests of one name disagree in ("shape", "dtype", "operation", ...); empty when they
/// agree. allgather and alltoall may differ in the first dimension.
std::string difference(const Request& a, const Request& b);

}  // namespace dabke

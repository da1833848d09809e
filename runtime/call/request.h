// The request of a rank: one tensor, or a group that is ordered as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/one_or_many.h"
#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/base/text/call_name.h"
#include "runtime/base/world.h"
#include "runtime/call/call_spec.h"

namespace dabke {

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t size_bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Within a process set, a request is identified by its name: the tensor's or the group's (name_key.h). The
/// call is as the rank requested it: an average stays an average, and the root is a rank of the world.
struct Request : CallSpec {
  std::string name;
  ProcessSetId process_set = kWorldSet;
  std::int32_t priority = 0;
  OneOrMany<TensorSpec> tensors;  // none for barrier, join and process sets
  std::vector<Rank> ranks;        // of a set that is added or removed; for remove_process_set, its id alone
  Status refused;                 // why this rank cannot run it, so that no rank does; ok if it can
  bool is_group = false;          // a member that is submitted alone, or the whole group, with its name
  /// Not 0: the program makes the calls of this number in the same order on all ranks of the set. Other ranks
  /// do not get it.
  std::uint64_t call_sequence = 0;

  std::size_t size_bytes() const;
  /// Returns the call for one of the tensors.
  CallSpec call_of(const TensorSpec& tensor) const;
  /// "allreduce (average) of float32 [2, 3]", "broadcast from rank 1 of ...", "group of 3: ..."; for
  /// messages.
  std::string describe() const;

 private:
  using CallSpec::dtype;  // each tensor has its own
};

/// The name of the call in all messages.
inline std::string name_of_call(const Request& request) { return name_of_call(request.kind, request.name); }

/// True for a receive from any rank, whose sender is not known yet.
inline bool is_from_any(const Request& request) {
  return request.kind == CollectiveKind::send_recv && request.root == kAnyRank;
}

using RequestRef = std::shared_ptr<const Request>;

/// Returns the attribute in which two ranks' requests of one name differ ("shape", "dtype", "operation",
/// ...); empty if they agree. The first dimension may differ for allgather and alltoall.
std::string difference(const Request& a, const Request& b);
/// True if two ranks' requests of one name do not differ.
bool agree(const Request& a, const Request& b);

}  // namespace dabke

// The tables of collectives, reduce operations, compressions and device routes: one row each, with names and
// numbers.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "runtime/base/dtype.h"

namespace dabke {

// clang-format off
//   id, name, name in the timeline, name of a backend's activity
//     what it does (CollectiveTrait)
#define DABKE_COLLECTIVES(X)                                                                             \
  X(allreduce, "allreduce", "ALLREDUCE", "ALLREDUCE",                                                    \
    kMovesData | kReduces | kFuses)                                                                      \
  X(allgather, "allgather", "ALLGATHER", "ALLGATHER",                                                    \
    kMovesData | kDividesRows | kFreeRows | kFuses)                                                      \
  X(broadcast, "broadcast", "BROADCAST", "BCAST",                                                        \
    kMovesData | kHasRoot | kFuses)                                                                      \
  X(alltoall, "alltoall", "ALLTOALL", "ALLTOALL",                                                        \
    kMovesData | kDividesRows | kFreeRows)                                                               \
  X(reducescatter, "reducescatter", "REDUCESCATTER", "REDUCESCATTER",                                    \
    kMovesData | kReduces | kDividesRows | kFuses)                                                       \
  X(barrier, "barrier", "BARRIER", "",                                                                   \
    kNoTraits)                                                                                           \
  X(join, "join", "JOIN", "",                                                                            \
    kNoTraits)                                                                                           \
  X(add_process_set, "add_process_set", "ADD_PROCESS_SET", "",                                           \
    kNoTraits)                                                                                           \
  X(remove_process_set, "remove_process_set", "REMOVE_PROCESS_SET", "",                                  \
    kNoTraits)                                                                                           \
  X(add_set_among_members, "add_process_set_among_members", "ADD_PROCESS_SET_AMONG_MEMBERS", "",         \
    kAmongMembers)                                                                                       \
  X(remove_set_among_members, "remove_process_set_among_members", "REMOVE_PROCESS_SET_AMONG_MEMBERS", "",\
    kAmongMembers)                                                                                       \
  X(send_recv, "send/recv", "SEND_RECV", "",                                                             \
    kMovesData | kHasRoot)

//   id            name           kinds of elements on which it is defined   (in the order of dabke.h)
#define DABKE_REDUCE_OPS(X)                                             \
  X(average,      "average",      kIntegers | kFloats)                  \
  X(sum,          "sum",          kBooleans | kIntegers | kFloats)      \
  X(adasum,       "adasum",       kFloats)                              \
  X(min,          "min",          kBooleans | kIntegers | kFloats)      \
  X(max,          "max",          kBooleans | kIntegers | kFloats)      \
  X(product,      "product",      kBooleans | kIntegers | kFloats)      \
  X(bitwise_and,  "bitwise_and",  kBooleans | kIntegers)                \
  X(bitwise_or,   "bitwise_or",   kBooleans | kIntegers)                \
  X(bitwise_xor,  "bitwise_xor",  kBooleans | kIntegers)

//   id         name        (the first leaves elements as they are; in the order of dabke.h)
#define DABKE_COMPRESSIONS(X) \
  X(none,      "none")        \
  X(float16,   "float16")     \
  X(bfloat16,  "bfloat16")

//   id             name
#define DABKE_DEVICE_ROUTES(X)        \
  X(device,        "device")          \
  X(hierarchical,  "hierarchical")    \
  X(host,          "host")            \
  X(direct,        "direct")
// clang-format on

/// The format in which the float32 elements of an allreduce travel between hosts.
enum class Compression : std::uint8_t {
#define X(id, ...) id,
  DABKE_COMPRESSIONS(X)
#undef X
};

/// The route of tensors on devices. The registry of backends chooses it, the same on all ranks.
///   device        the device's backend
///   hierarchical  the device's backend inside each host, the host's lane between hosts
///   host          the host's lane, on copies in host memory
///   direct        the host's lane, with a backend that takes pointers to device memory
enum class DeviceRoute : std::uint8_t {
#define X(id, ...) id,
  DABKE_DEVICE_ROUTES(X)
#undef X
};

enum class CollectiveKind : std::uint8_t {
#define X(id, ...) id,
  DABKE_COLLECTIVES(X)
#undef X
};

enum class ReduceOp : std::uint8_t {
#define X(id, ...) id,
  DABKE_REDUCE_OPS(X)
#undef X
};

inline constexpr auto kReduceOps = std::to_array<ReduceOp>({
#define X(id, ...) ReduceOp::id,
    DABKE_REDUCE_OPS(X)
#undef X
});

constexpr std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
#define X(id, name, upper, activity, traits) \
  case CollectiveKind::id: return name;
    DABKE_COLLECTIVES(X)
#undef X
  }
  return "unknown";
}

constexpr std::string_view timeline_name_of(CollectiveKind kind) {
  switch (kind) {
#define X(id, name, upper, activity, traits) \
  case CollectiveKind::id: return upper;
    DABKE_COLLECTIVES(X)
#undef X
  }
  return "UNKNOWN";
}

/// The name of the activity in which a backend moves the data, without the backend's own name; empty if it
/// moves none.
constexpr std::string_view activity_name_of(CollectiveKind kind) {
  switch (kind) {
#define X(id, name, upper, activity, traits) \
  case CollectiveKind::id: return activity;
    DABKE_COLLECTIVES(X)
#undef X
  }
  return {};
}

constexpr std::string_view name_of(ReduceOp op) {
  switch (op) {
#define X(id, name, elements) \
  case ReduceOp::id: return name;
    DABKE_REDUCE_OPS(X)
#undef X
  }
  return "unknown";
}

/// True if the operation is defined on elements of this dtype.
constexpr bool is_defined(ReduceOp op, DType dtype) {
  switch (op) {
#define X(id, name, elements) \
  case ReduceOp::id: return ((elements)&elements_of(dtype)) != 0;
    DABKE_REDUCE_OPS(X)
#undef X
  }
  return false;
}

constexpr std::string_view name_of(Compression compression) {
  switch (compression) {
#define X(id, name) \
  case Compression::id: return name;
    DABKE_COMPRESSIONS(X)
#undef X
  }
  return "unknown";
}

constexpr std::string_view name_of(DeviceRoute route) {
  switch (route) {
#define X(id, name) \
  case DeviceRoute::id: return name;
    DABKE_DEVICE_ROUTES(X)
#undef X
  }
  return "unknown";
}

/// The traits of a collective, a column of the table.
enum CollectiveTrait : std::uint8_t {
  kNoTraits = 0,
  kMovesData = 1,      // collectives without it only agree
  kReduces = 2,        // combines numbers, so it has a reduce op and scales
  kHasRoot = 4,        // one rank has the data
  kDividesRows = 8,    // each rank gives or gets a part of the rows, so there must be a first dimension
  kFreeRows = 16,      // the first dimension may differ between ranks
  kFuses = 32,         // several tensors may travel as one
  kAmongMembers = 64,  // waits only for the ranks that the call lists
};

constexpr bool has_trait(CollectiveKind kind, CollectiveTrait trait) {
  switch (kind) {
#define X(id, name, upper, activity, traits) \
  case CollectiveKind::id: return ((traits)&trait) != 0;
    DABKE_COLLECTIVES(X)
#undef X
  }
  return false;
}

constexpr bool moves_data(CollectiveKind kind) { return has_trait(kind, kMovesData); }
constexpr bool reduces(CollectiveKind kind) { return has_trait(kind, kReduces); }
constexpr bool has_root(CollectiveKind kind) { return has_trait(kind, kHasRoot); }
constexpr bool divides_rows(CollectiveKind kind) { return has_trait(kind, kDividesRows); }
constexpr bool has_free_rows(CollectiveKind kind) { return has_trait(kind, kFreeRows); }
/// True if each rank gives and gets the whole tensor or nothing.
constexpr bool is_whole(CollectiveKind kind) { return moves_data(kind) && !divides_rows(kind); }
/// True if it reduces and each rank gets only a part of the result.
constexpr bool scatters(CollectiveKind kind) { return reduces(kind) && divides_rows(kind); }
constexpr bool fuses(CollectiveKind kind) { return has_trait(kind, kFuses); }
constexpr bool is_among_members(CollectiveKind kind) { return has_trait(kind, kAmongMembers); }
constexpr bool adds_set(CollectiveKind kind) {
  return kind == CollectiveKind::add_process_set || kind == CollectiveKind::add_set_among_members;
}
constexpr bool removes_set(CollectiveKind kind) {
  return kind == CollectiveKind::remove_process_set || kind == CollectiveKind::remove_set_among_members;
}

/// A set of collectives, such as those that a backend runs.
class Collectives {
 public:
  constexpr Collectives(std::initializer_list<CollectiveKind> kinds) {
    for (const CollectiveKind kind : kinds) bits_ |= bit(kind);
  }
  constexpr bool contains(CollectiveKind kind) const { return (bits_ & bit(kind)) != 0; }
  constexpr Collectives without(CollectiveKind kind) const {
    Collectives rest = *this;
    rest.bits_ &= ~bit(kind);
    return rest;
  }

 private:
  static constexpr std::uint32_t bit(CollectiveKind kind) { return 1U << static_cast<unsigned>(kind); }
  std::uint32_t bits_ = 0;
};

/// The collectives that every backend of the host runs. A new collective is in a backend's set only once that
/// lists it.
inline constexpr Collectives kCollectivesOfHostBackends = {
    CollectiveKind::allreduce, CollectiveKind::allgather,     CollectiveKind::broadcast,
    CollectiveKind::alltoall,  CollectiveKind::reducescatter, CollectiveKind::barrier};

/// The last value of an enumeration whose numbers begin at 0 and have no gap.
template <class E>
inline constexpr E kLast = E::has_no_last;
#define X(...) +1
template <>
inline constexpr CollectiveKind kLast<CollectiveKind> = static_cast<CollectiveKind>(DABKE_COLLECTIVES(X) - 1);
template <>
inline constexpr ReduceOp kLast<ReduceOp> = static_cast<ReduceOp>(DABKE_REDUCE_OPS(X) - 1);
template <>
inline constexpr Compression kLast<Compression> = static_cast<Compression>(DABKE_COMPRESSIONS(X) - 1);
template <>
inline constexpr DeviceRoute kLast<DeviceRoute> = static_cast<DeviceRoute>(DABKE_DEVICE_ROUTES(X) - 1);
#undef X

inline constexpr int kCollectiveCount = static_cast<int>(kLast<CollectiveKind>) + 1;

}  // namespace dabke

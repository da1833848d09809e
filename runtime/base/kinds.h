// The collectives and the reduce operations. One row each; names and numbers hang on them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dabke {

// clang-format off
//   id                  name                  as Horovod's timeline writes it
#define DABKE_COLLECTIVES(X)                                         \
  X(allreduce,           "allreduce",           "ALLREDUCE")          \
  X(allgather,           "allgather",           "ALLGATHER")          \
  X(broadcast,           "broadcast",           "BROADCAST")          \
  X(alltoall,            "alltoall",            "ALLTOALL")           \
  X(reducescatter,       "reducescatter",       "REDUCESCATTER")      \
  X(barrier,             "barrier",             "BARRIER")            \
  X(join,                "join",                "JOIN")               \
  X(add_process_set,     "add_process_set",     "ADD_PROCESS_SET")    \
  X(remove_process_set,  "remove_process_set",  "REMOVE_PROCESS_SET")

//   id        value  name        (values are Horovod's)
#define DABKE_REDUCE_OPS(X)   \
  X(average,   0, "average")  \
  X(sum,       1, "sum")      \
  X(adasum,    2, "adasum")   \
  X(min,       3, "min")      \
  X(max,       4, "max")      \
  X(product,   5, "product")

//   id        value  name        (0 travels as it is)
#define DABKE_COMPRESSIONS(X) \
  X(none,      0, "none")     \
  X(float16,   1, "float16")  \
  X(bfloat16,  2, "bfloat16")
// clang-format on

/// What the float32 elements of an allreduce travel as between hosts.
enum class Compression : std::uint8_t {
#define X(id, value, name) id = value,
  DABKE_COMPRESSIONS(X)
#undef X
};

enum class CollectiveKind : std::uint8_t {
#define X(id, ...) id,
  DABKE_COLLECTIVES(X)
#undef X
};

enum class ReduceOp : std::uint8_t {
#define X(id, value, name) id = value,
  DABKE_REDUCE_OPS(X)
#undef X
};

inline constexpr int kCollectiveCount = 0
#define X(...) +1
    DABKE_COLLECTIVES(X)
#undef X
    ;

constexpr std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
#define X(id, name, upper) \
  case CollectiveKind::id: return name;
    DABKE_COLLECTIVES(X)
#undef X
  }
  return "unknown";
}

constexpr std::string_view timeline_name_of(CollectiveKind kind) {
  switch (kind) {
#define X(id, name, upper) \
  case CollectiveKind::id: return upper;
    DABKE_COLLECTIVES(X)
#undef X
  }
  return "UNKNOWN";
}

constexpr std::string_view name_of(ReduceOp op) {
  switch (op) {
#define X(id, value, name) \
  case ReduceOp::id: return name;
    DABKE_REDUCE_OPS(X)
#undef X
  }
  return "unknown";
}

constexpr std::string_view name_of(Compression compression) {
  switch (compression) {
#define X(id, value, name) \
  case Compression::id: return name;
    DABKE_COMPRESSIONS(X)
#undef X
  }
  return "unknown";
}

/// none for a name that there is not.
constexpr Compression compression_named(std::string_view wanted) {
#define X(id, value, name) \
  if (wanted == name) return Compression::id;
  DABKE_COMPRESSIONS(X)
#undef X
  return Compression::none;
}

/// Whether the collective combines numbers (and so has a reduce op and scales).
constexpr bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::allreduce || kind == CollectiveKind::reducescatter;
}

/// Whether a tensor's data moves; the others only agree.
constexpr bool moves_data(CollectiveKind kind) { return kind <= CollectiveKind::reducescatter; }

}  // namespace dabke

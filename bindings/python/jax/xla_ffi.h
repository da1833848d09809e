// The part of XLA's FFI that a handler on the host needs: a C ABI whose structs carry their sizes. The
// layouts are those of the API's versions 0.1 to 0.3 (jaxlib 0.5 to 0.10), declared here, so that no header
// of XLA is in the build.
//
// A struct of XLA may be longer than the one here: later versions add members at the end. The API's version
// shows which members there are at least; `has_member` comes before the first use of what 0.1 did not have.
// The sizes that XLA fills in do not count the last members of some structs: of Api in 0.1, of CallFrame and
// Metadata in all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dabke::python::xla {

struct Extension {
  std::size_t struct_size;
  int type;
  Extension* next;
};
inline constexpr int kMetadataExtension = 1;

struct ApiVersion {
  std::size_t struct_size;
  Extension* extensions;
  int major;
  int minor;
};

/// An opaque error, which belongs to XLA once a handler has returned it.
struct Error;
/// An opaque result of a handler that has returned before its work is done.
struct Future;
/// An opaque execution of a program.
struct Execution;

/// The error codes that Dabke's statuses become; the numbers are absl's.
enum class ErrorCode : int {
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
};

/// The element types that Dabke has too; the numbers are XLA's.
enum class DataType : int {
  boolean = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  uint8 = 6,
  uint16 = 7,
  uint32 = 8,
  uint64 = 9,
  float16 = 10,
  float32 = 11,
  float64 = 12,
  bfloat16 = 16,
};

struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dimensions;  // row-major
};

/// The arguments or the results of a call; every one is a buffer.
struct Buffers {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  int* types;
  Buffer** buffers;
};
inline constexpr int kBufferType = 1;

struct ByteSpan {
  const char* data;
  std::size_t size;

  std::string_view view() const { return {data, size}; }
};

struct Scalar {
  DataType dtype;
  void* value;
};

enum class AttributeType : int { array = 1, dictionary = 2, scalar = 3, string = 4 };

/// The attributes of a call, sorted by name.
struct Attributes {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  AttributeType* types;
  ByteSpan** names;
  void** values;  // a Scalar* or a ByteSpan*, by the type
};

struct ErrorCreateArguments {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  ErrorCode code;
};
struct ErrorDestroyArguments {
  std::size_t struct_size;
  Extension* extensions;
  Error* error;
};
struct FutureCreateArguments {
  std::size_t struct_size;
  Extension* extensions;
  Future* future;  // out
};
struct FutureSetAvailableArguments {
  std::size_t struct_size;
  Extension* extensions;
  Future* future;
};
struct FutureSetErrorArguments {
  std::size_t struct_size;
  Extension* extensions;
  Future* future;
  Error* error;  // XLA's from then on
};
struct RunIdArguments {
  std::size_t struct_size;
  Extension* extensions;
  Execution* execution;
  std::int64_t run_id;  // out
};

/// The functions of XLA, in the order of its table. Those that no handler here calls are `void*`.
struct Api {
  std::size_t struct_size;
  Extension* extensions;
  ApiVersion version;
  const void* internal;
  Error* (*error_create)(ErrorCreateArguments*);
  void* error_get_message;
  void (*error_destroy)(ErrorDestroyArguments*);
  void* handler_register;
  void* stream_get;
  void* type_register;
  void* context_get;
  void* state_set;
  void* state_get;
  void* device_memory_allocate;
  void* device_memory_free;
  void* thread_pool_schedule;
  void* thread_pool_threads;
  Error* (*future_create)(FutureCreateArguments*);
  Error* (*future_set_available)(FutureSetAvailableArguments*);
  Error* (*future_set_error)(FutureSetErrorArguments*);
  Error* (*run_id_get)(RunIdArguments*);  // from 0.2 on
};

enum class Stage : int { instantiate = 0, prepare = 1, initialize = 2, execute = 3 };

/// The one argument of a handler.
struct CallFrame {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  Execution* execution;
  Stage stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
  /// Out; `struct_size` does not count it. XLA keeps arguments, results and attributes until it is
  /// completed.
  Future* future;
};

/// XLA's question at registration: for which version of the API a handler was made.
struct Metadata {
  std::size_t struct_size;
  ApiVersion version;
  std::uint32_t traits;
  std::int64_t state_type;  // from 0.2 on
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

/// True if XLA's `table` is long enough to have the member at `offset`.
inline bool has_member(const Api& table, std::size_t offset) {
  return table.struct_size >= offset + sizeof(void*);
}

/// Arguments of a function of XLA, with their size filled in.
template <class Arguments>
Arguments make_arguments() {
  Arguments made{};
  made.struct_size = sizeof(Arguments);
  return made;
}

}  // namespace dabke::python::xla

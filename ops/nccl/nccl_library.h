// The functions of NCCL that we call, in our own declarations, and the search for NCCL.
// tests/ops/nccl/nccl_declarations.cc compares the declarations with nccl.h if that is installed.
//
// The search begins with the first device tensor, never before: an NCCL that is loaded earlier would be used
// by a framework that is loaded later. A process has one NCCL, the first of these:
//   1. the NCCL that is loaded already, found by its soname (a framework's)
//   2. the file that DABKE_NCCL_LIBRARY names
//   3. pip's NCCL (nvidia/nccl/lib below a site-packages): of the wheel that contains this code, of
//      $VIRTUAL_ENV, of the running Python
//   4. the NCCL that the loader finds
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ops/nccl/cuda_driver.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::nccl {

using Error = int;
using Communicator = struct ncclComm*;
using Type = int;
using Op = int;

inline constexpr std::size_t kIdBytes = 128;
struct Id {
  char internal[kIdBytes];
};

inline constexpr Error kSuccess = 0;
inline constexpr Error kUnhandledCudaError = 1;
inline constexpr Error kSystemError = 2;
inline constexpr Error kInternalError = 3;
inline constexpr Error kInvalidArgument = 4;
inline constexpr Error kInvalidUsage = 5;
inline constexpr Error kRemoteError = 6;
inline constexpr Error kInProgress = 7;

inline constexpr Op kSum = 0;
inline constexpr Op kProd = 1;
inline constexpr Op kMax = 2;
inline constexpr Op kMin = 3;

inline constexpr int kLeastVersion = 21800;  // 2.18.0
inline constexpr int kUndefined = -2147483647 - 1;

/// How a communicator is made, as NCCL 2.18 declares it. Later versions add members behind these. They use
/// the default for each member that lies beyond a smaller `size`.
struct Settings {
  std::size_t size = sizeof(Settings);
  unsigned magic = 0xcafebeef;
  unsigned version = kLeastVersion;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int least_blocks = kUndefined;
  int most_blocks = kUndefined;
  const char* network = nullptr;
  int split_share = kUndefined;
};

// clang-format off
//  member           in nccl.h               parameters
#define DABKE_NCCL(X)                                                                                        \
  X(get_version,     ncclGetVersion,         (int*))                                                         \
  X(get_unique_id,   ncclGetUniqueId,        (Id*))                                                          \
  X(init_rank,       ncclCommInitRankConfig, (Communicator*, int, Id, int, Settings*))                       \
  X(get_async_error, ncclCommGetAsyncError,  (Communicator, Error*))                                         \
  X(finalize,        ncclCommFinalize,       (Communicator))                                                 \
  X(destroy,         ncclCommDestroy,        (Communicator))                                                 \
  X(abort,           ncclCommAbort,          (Communicator))                                                 \
  X(group_start,     ncclGroupStart,         ())                                                             \
  X(group_end,       ncclGroupEnd,           ())                                                             \
  X(all_reduce, ncclAllReduce,                                                                               \
    (const void*, void*, std::size_t, Type, Op, Communicator, cuda::Stream))                                 \
  X(reduce, ncclReduce,                                                                                      \
    (const void*, void*, std::size_t, Type, Op, int, Communicator, cuda::Stream))                            \
  X(broadcast, ncclBroadcast,                                                                                \
    (const void*, void*, std::size_t, Type, int, Communicator, cuda::Stream))                                \
  X(all_gather, ncclAllGather,                                                                               \
    (const void*, void*, std::size_t, Type, Communicator, cuda::Stream))                                     \
  X(reduce_scatter, ncclReduceScatter,                                                                       \
    (const void*, void*, std::size_t, Type, Op, Communicator, cuda::Stream))                                 \
  X(send, ncclSend,                                                                                          \
    (const void*, std::size_t, Type, int, Communicator, cuda::Stream))                                       \
  X(receive,         ncclRecv,               (void*, std::size_t, Type, int, Communicator, cuda::Stream))
// null if NCCL is older than the version in the comment
#define DABKE_LATER_NCCL(X)                                                                                  \
  X(allocate,        ncclMemAlloc,           (void**, std::size_t))  /* 2.19 */                              \
  X(free,            ncclMemFree,            (void*))  /* 2.19 */                                            \
  X(add_buffer,      ncclCommRegister,       (Communicator, void*, std::size_t, void**))  /* 2.19 */         \
  X(remove_buffer,   ncclCommDeregister,     (Communicator, void*))  /* 2.19 */
// clang-format on

struct Library {
#define X(member, in_header, parameters) Error(*member) parameters = nullptr;
  DABKE_NCCL(X)
  DABKE_LATER_NCCL(X)
#undef X
  const char* (*error_text)(Error) = nullptr;
  const char* (*last_error)(Communicator) = nullptr;
  int version = 0;   // 21800
  std::string text;  // "NCCL 2.18.0 (DABKE_NCCL_LIBRARY: /opt/libnccl.so.2)"
};

/// "2.18.0"
std::string version_text(int version);

/// A file that may contain NCCL, in the order above, for the messages and for tests.
struct Candidate {
  std::string source;  // "DABKE_NCCL_LIBRARY"
  std::string file;
};
/// Returns candidates 2 and 3 of the list. `named` is the value of DABKE_NCCL_LIBRARY, or empty. `own_file`
/// is the path of the file that contains this code; `program` is the path of the process's program.
std::vector<Candidate> candidates(const std::string& named, const Environment& environment,
                                  const std::string& own_file, const std::string& program);

/// Finds and loads NCCL. Never closed.
///   errors  unsupported: there is none, it is too old, or lacks a function; the text lists the places
///           searched
Result<Library> load(const std::string& named, const Environment& environment);

/// Returns ok, or code transport with the call, NCCL's text, that of ncclGetLastError, and the likely cause.
Status check(const Library& library, std::string_view call, Error error, Communicator communicator = nullptr);

/// Returns the likely cause of an error beyond its text, and the remedy; empty if they are not known.
std::string_view remedy_for(Error error, std::string_view text);

}  // namespace dabke::nccl

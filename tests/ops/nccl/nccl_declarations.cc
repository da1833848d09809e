// Compares ops/nccl/nccl_library.h with nccl.h: this does not compile if they differ.
#include <cstddef>

#include <nccl.h>

#include "ops/nccl/nccl_dtype.h"
#include "ops/nccl/nccl_library.h"
#include "tests/ops/nccl/declarations.h"

namespace dabke::nccl {
namespace {

using test::Alike;

#define X(member, in_header, parameters) \
  static_assert(Alike<decltype(Library::member), decltype(&::in_header)>::value, #in_header);
DABKE_NCCL(X)
DABKE_LATER_NCCL(X)
#undef X
static_assert(std::is_same_v<decltype(&::ncclGetErrorString), const char* (*)(ncclResult_t)>);
static_assert(std::is_same_v<decltype(&::ncclGetLastError), const char* (*)(ncclComm_t)>);

static_assert(sizeof(Id) == sizeof(ncclUniqueId) && kIdBytes == NCCL_UNIQUE_ID_BYTES);
static_assert(kSuccess == ncclSuccess && kUnhandledCudaError == ncclUnhandledCudaError &&
              kSystemError == ncclSystemError && kInternalError == ncclInternalError &&
              kInvalidArgument == ncclInvalidArgument && kInvalidUsage == ncclInvalidUsage &&
              kRemoteError == ncclRemoteError && kInProgress == ncclInProgress);
static_assert(kSum == ::ncclSum && kProd == ::ncclProd && kMax == ::ncclMax && kMin == ::ncclMin);
static_assert(kUndefined == NCCL_CONFIG_UNDEF_INT && kLeastVersion == NCCL_VERSION(2, 18, 0));
static_assert(dabke::ops::ncclInt8 == ::ncclInt8 && dabke::ops::ncclUint8 == ::ncclUint8 &&
              dabke::ops::ncclInt32 == ::ncclInt32 && dabke::ops::ncclUint32 == ::ncclUint32 &&
              dabke::ops::ncclInt64 == ::ncclInt64 && dabke::ops::ncclUint64 == ::ncclUint64 &&
              dabke::ops::ncclFloat16 == ::ncclFloat16 && dabke::ops::ncclFloat32 == ::ncclFloat32 &&
              dabke::ops::ncclFloat64 == ::ncclFloat64 && dabke::ops::ncclBfloat16 == ::ncclBfloat16);

// Our struct is the beginning of NCCL's, which may be longer.
#define SAME(ours, theirs) static_assert(offsetof(Settings, ours) == offsetof(ncclConfig_t, theirs), #theirs)
SAME(size, size);
SAME(magic, magic);
SAME(version, version);
SAME(blocking, blocking);
SAME(cga_cluster_size, cgaClusterSize);
SAME(least_blocks, minCTAs);
SAME(most_blocks, maxCTAs);
SAME(network, netName);
SAME(split_share, splitShare);
static_assert(sizeof(Settings) <= sizeof(ncclConfig_t));

}  // namespace
}  // namespace dabke::nccl

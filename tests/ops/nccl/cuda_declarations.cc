// Compares ops/nccl/cuda_driver.h with cuda.h: this does not compile if they differ.
#include <cuda.h>

#include "ops/nccl/cuda_driver.h"
#include "tests/ops/nccl/declarations.h"

namespace dabke::cuda {
namespace {

using test::Alike;

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
// The header's macros name the version that it declares. A function may have a second version with the same
// parameters, which only drivers of 12.8 and newer have. Dabke then calls the first one.
constexpr bool is_version_of(std::string_view in_header, std::string_view exported) {
  const bool has_second = exported == "cuEventElapsedTime" && in_header == "cuEventElapsedTime_v2";
  return in_header == exported || has_second;
}
#define X(member, in_header, exported, parameters)                                                \
  static_assert(Alike<decltype(Driver::member), decltype(&::in_header)>::value, TEXT(in_header)); \
  static_assert(is_version_of(TEXT(in_header), exported), exported);
DABKE_CUDA_DRIVER(X)
#if CUDA_VERSION >= 12040
DABKE_LATER_CUDA_DRIVER(X)
#endif
#undef X

static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE &&
              kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNotInitialized == CUDA_ERROR_NOT_INITIALIZED &&
              kNoDevice == CUDA_ERROR_NO_DEVICE && kInvalidDevice == CUDA_ERROR_INVALID_DEVICE &&
              kInvalidContext == CUDA_ERROR_INVALID_CONTEXT &&
              kNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU &&
              kUnsupportedPtxVersion == CUDA_ERROR_UNSUPPORTED_PTX_VERSION &&
              kInvalidHandle == CUDA_ERROR_INVALID_HANDLE && kNotFound == CUDA_ERROR_NOT_FOUND &&
              kNotReady == CUDA_ERROR_NOT_READY && kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS &&
              kLaunchFailed == CUDA_ERROR_LAUNCH_FAILED &&
              kSystemDriverMismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH &&
              kNoCompatibility == CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE &&
              kCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
              kCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
              kCapturedEvent == CUDA_ERROR_CAPTURED_EVENT && kUnknown == CUDA_ERROR_UNKNOWN);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING &&
              kEventDisableTiming == CU_EVENT_DISABLE_TIMING &&
              kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
              kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED &&
              kNotCapturing == CU_STREAM_CAPTURE_STATUS_NONE &&
              kCapturing == CU_STREAM_CAPTURE_STATUS_ACTIVE);
// The compiler does not accept these as constants, so they are compared as text.
#define SAME_TEXT(x, text) static_assert(std::string_view(TEXT(x)) == text)
SAME_TEXT(CU_STREAM_LEGACY, "((CUstream)0x1)");
SAME_TEXT(CU_STREAM_PER_THREAD, "((CUstream)0x2)");
static_assert(kLegacyStream == 0x1 && kPerThreadStream == 0x2);

}  // namespace
}  // namespace dabke::cuda

// The names of the fake driver's errors, as in the driver.
#include <utility>

#include "tests/fake_cuda/fake_cuda.h"

using namespace dabke::cuda;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr std::pair<Error, std::pair<const char*, const char*>> kErrors[] = {
    {kSuccess, {"CUDA_SUCCESS", "no error"}},
    {kInvalidValue, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {kOutOfMemory, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {kNoDevice, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {kInvalidDevice, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {kInvalidContext, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {kUnsupportedPtxVersion,
     {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."}},
    {kInvalidHandle, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {kNotFound, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {kNotReady, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {kIllegalAddress, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {kLaunchFailed, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {kSystemDriverMismatch,
     {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
      "system has unsupported display driver / cuda driver combination"}},
    {kNoCompatibility,
     {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
      "forward compatibility was attempted on non supported HW"}},
    {kCaptureUnsupported,
     {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
    {kCaptureImplicit,
     {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
      "operation would make the legacy stream depend on a capturing blocking stream"}},
    {kCapturedEvent,
     {"CUDA_ERROR_CAPTURED_EVENT",
      "operation not permitted on an event last recorded in a capturing stream"}},
    {kUnknown, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
};

}  // namespace

EXPORT Error cuGetErrorName(Error error, const char** name) {
  *name = nullptr;
  for (const auto& [code, texts] : kErrors) {
    if (code == error) *name = texts.first;
  }
  return *name != nullptr ? kSuccess : kInvalidValue;
}
EXPORT Error cuGetErrorString(Error error, const char** text) {
  *text = nullptr;
  for (const auto& [code, texts] : kErrors) {
    if (code == error) *text = texts.second;
  }
  return *text != nullptr ? kSuccess : kInvalidValue;
}

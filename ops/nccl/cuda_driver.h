// The functions of the CUDA driver that we call, in our own declarations: this file compiles without CUDA,
// and nothing is linked. tests/ops/nccl/cuda_declarations.cc compares the declarations with cuda.h if that is
// installed.
//
// Only the driver API is called, through the machine's libcuda.so.1, by the exported names of the versions
// that are declared here. A cudaStream_t is a CUstream, a cudaEvent_t is a CUevent, and a device pointer is
// an address. So objects that a program has made with the CUDA runtime can be given to the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace dabke::cuda {

using Error = int;
using DeviceHandle = int;
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Pointer = unsigned long long;

inline constexpr Error kSuccess = 0;
inline constexpr Error kInvalidValue = 1;
inline constexpr Error kOutOfMemory = 2;
inline constexpr Error kNotInitialized = 3;
inline constexpr Error kNoDevice = 100;
inline constexpr Error kInvalidDevice = 101;
inline constexpr Error kInvalidContext = 201;
inline constexpr Error kNoBinaryForGpu = 209;
inline constexpr Error kUnsupportedPtxVersion = 222;
inline constexpr Error kInvalidHandle = 400;
inline constexpr Error kNotFound = 500;
inline constexpr Error kNotReady = 600;
inline constexpr Error kIllegalAddress = 700;
inline constexpr Error kLaunchFailed = 719;
inline constexpr Error kSystemDriverMismatch = 803;
inline constexpr Error kNoCompatibility = 804;
inline constexpr Error kCaptureUnsupported = 900;
inline constexpr Error kCaptureImplicit = 906;
inline constexpr Error kCapturedEvent = 907;
inline constexpr Error kUnknown = 999;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureThreadLocal = 1;  // mode of a thread
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kNotCapturing = 0;  // status of a stream
inline constexpr int kCapturing = 1;
// Handles that are not addresses: the legacy stream of the current context, and the calling thread's own
// stream there.
inline constexpr std::uintptr_t kLegacyStream = 1;
inline constexpr std::uintptr_t kPerThreadStream = 2;

// clang-format off
//  member           in cuda.h                    exported                        parameters
#define DABKE_CUDA_DRIVER(X)                                                                                 \
  X(init,            cuInit,                      "cuInit",                       (unsigned))                \
  X(driver_version,  cuDriverGetVersion,          "cuDriverGetVersion",           (int*))                    \
  X(error_name,      cuGetErrorName,              "cuGetErrorName",               (Error, const char**))     \
  X(error_text,      cuGetErrorString,            "cuGetErrorString",             (Error, const char**))     \
  X(device_count,    cuDeviceGetCount,            "cuDeviceGetCount",             (int*))                    \
  X(device,          cuDeviceGet,                 "cuDeviceGet",                  (DeviceHandle*, int))      \
  X(device_name, cuDeviceGetName, "cuDeviceGetName",                                                         \
    (char*, int, DeviceHandle))                                                                              \
  X(retain_context,  cuDevicePrimaryCtxRetain,    "cuDevicePrimaryCtxRetain",     (Context*, DeviceHandle))  \
  X(release_context, cuDevicePrimaryCtxRelease,   "cuDevicePrimaryCtxRelease_v2", (DeviceHandle))            \
  X(push_context,    cuCtxPushCurrent,            "cuCtxPushCurrent_v2",          (Context))                 \
  X(pop_context,     cuCtxPopCurrent,             "cuCtxPopCurrent_v2",           (Context*))                \
  X(priority_range,  cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange",  (int*, int*))              \
  X(create_stream,   cuStreamCreateWithPriority,  "cuStreamCreateWithPriority",   (Stream*, unsigned, int))  \
  X(destroy_stream,  cuStreamDestroy,             "cuStreamDestroy_v2",           (Stream))                  \
  X(wait_event,      cuStreamWaitEvent,           "cuStreamWaitEvent",            (Stream, Event, unsigned)) \
  X(is_capturing,    cuStreamIsCapturing,         "cuStreamIsCapturing",          (Stream, int*))            \
  X(exchange_capture, cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",                \
    (int*))                                                                                                  \
  X(create_event,    cuEventCreate,               "cuEventCreate",                (Event*, unsigned))        \
  X(destroy_event,   cuEventDestroy,              "cuEventDestroy_v2",            (Event))                   \
  X(record_event,    cuEventRecord,               "cuEventRecord",                (Event, Stream))           \
  X(query_event,     cuEventQuery,                "cuEventQuery",                 (Event))                   \
  X(elapsed_time,    cuEventElapsedTime,          "cuEventElapsedTime",           (float*, Event, Event))    \
  X(allocate,        cuMemAlloc,                  "cuMemAlloc_v2",                (Pointer*, std::size_t))   \
  X(free,            cuMemFree,                   "cuMemFree_v2",                 (Pointer))                 \
  X(allocate_host, cuMemHostAlloc, "cuMemHostAlloc",                                                         \
    (void**, std::size_t, unsigned))                                                                         \
  X(free_host,       cuMemFreeHost,               "cuMemFreeHost",                (void*))                   \
  X(copy_to_device, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                               \
    (Pointer, const void*, std::size_t, Stream))                                                             \
  X(copy_to_host, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                 \
    (void*, Pointer, std::size_t, Stream))                                                                   \
  X(fill_bytes, cuMemsetD8Async, "cuMemsetD8Async",                                                          \
    (Pointer, unsigned char, std::size_t, Stream))                                                           \
  X(load_module,     cuModuleLoadData,            "cuModuleLoadData",             (Module*, const void*))    \
  X(module_function, cuModuleGetFunction, "cuModuleGetFunction",                                             \
    (Function*, Module, const char*))                                                                        \
  X(launch, cuLaunchKernel, "cuLaunchKernel",                                                                \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**))
// null if the driver is older than the version in the comment
#define DABKE_LATER_CUDA_DRIVER(X)                                                                           \
  X(load_function,   cuFuncLoad,                  "cuFuncLoad",                   (Function))  /* 12.4 */
// clang-format on

/// The driver of this process.
struct Driver {
#define X(member, in_header, exported, parameters) Error(*member) parameters = nullptr;
  DABKE_CUDA_DRIVER(X)
  DABKE_LATER_CUDA_DRIVER(X)
#undef X
  int version = 0;   // 13000
  std::string text;  // "CUDA driver 13.0"
};

/// Loads and initialises the driver. Never closed.
///   errors  unsupported: there is no driver here, or it finds no device; the text gives the remedy
Result<Driver> load_driver(std::string_view file = "libcuda.so.1");

/// Returns the meaning of an error: "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected". The
/// likely cause and the remedy follow, if they are known.
std::string describe(const Driver& driver, Error error);

/// Returns ok, or an error with "cuEventQuery: " and the description. Its code is out_of_memory if the driver
/// has reported that, else transport.
Status check(const Driver& driver, std::string_view call, Error error);

}  // namespace dabke::cuda

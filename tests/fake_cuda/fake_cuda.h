// A double of the CUDA driver and of NCCL, for tests without a GPU: two shared libraries with the real names.
// They export the functions that Dabke calls (ops/nccl/cuda_driver.h, ops/nccl/nccl_library.h). They are
// never installed, and the first call prints on stderr that this is a double.
//
// How it works:
//   memory         A device's memory is host memory.
//   streams        A stream is a thread that runs one thing after the other.
//   kernels        A kernel is our own source, compiled for the host. It runs thread by thread.
//   collectives    NCCL's collectives go through shared memory, between threads and between processes.
//   communicators  A communicator never blocks, is sometimes InProgress, and ends when it is aborted.
//   captures       A stream that is being captured runs nothing.
// The double is stricter than the real libraries. These are errors:
//   * a call without the context that it needs, as in the driver. If nobody checks the result, the process
//     ends.
//   * work on a stream on which NCCL has not enqueued its own work yet. NCCL only forbids it.
//   * the launch of a kernel that was not loaded before. A driver that loads late would load it during a
//     collective.
//   * a call that would break a capture, even if there is none, unless the thread has chosen a capture mode.
//   * two ranks on one device, unless NCCL_HOSTID puts them on different hosts. From version 2.30 on,
//     NCCL_MULTI_RANK_GPU_ENABLE=1 allows them, too.
//
// A plan injects faults. It has rules with a ';' between them: CALL DEVICE NTH WHAT. A rule applies to the
// NTH (from 1) CALL on the device (a number, or * for every device):
//   a number   the call returns that error; an error of CUDA from 700 on stays with the device, as usual
//   hang       a collective never ends on the device, unless its communicator is aborted
//   never      the same, but an abort does not end it
//   takes=MS   a collective takes that much longer on the device, less than a second
//   async=N    a collective ends with error N, which ncclCommGetAsyncError returns
//   exit       the process ends
// FAKE_CUDA_PLAN is the plan, FAKE_CUDA_DEVICES the number of devices (8), FAKE_CUDA_SEED the seed of random
// delays (0: no delays), FAKE_NCCL_VERSION the version that ncclGetVersion returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/nccl/cuda_driver.h"

namespace dabke::test {
/// Figures over all devices of the process.
struct NcclFigures {
  std::uint64_t buffers;  // buffers of ncclMemAlloc, now
  std::uint64_t known;    // registered buffers, now
  std::uint64_t runs;     // collectives whose memory was registered with their communicator, ever
  std::uint64_t beside;   // allocations and registrations while a collective ran on the device, ever
};
}  // namespace dabke::test

extern "C" {
/// Replaces the plan and restarts the counts at 1. Devices that were lost work again.
__attribute__((visibility("default"))) void fake_cuda_plan(const char* plan, unsigned seed);
/// The outcome of this call on this device by the plan: an error, or one of the constants below.
__attribute__((visibility("default"))) int fake_cuda_outcome(const char* call, int device);
/// Opens a stream of a device, as a program does. The stream is never destroyed.
__attribute__((visibility("default"))) dabke::cuda::Stream fake_cuda_open_stream(int device);
/// The stream that a handle below the addresses means: the device's legacy
/// stream, or the calling thread's own.
__attribute__((visibility("default"))) dabke::cuda::Stream fake_cuda_default_stream(std::uintptr_t handle,
                                                                                    int device);
/// The number of events with a time that were recorded.
__attribute__((visibility("default"))) std::uint64_t fake_cuda_timed_events();
/// The number of kernels that have finished on the device.
__attribute__((visibility("default"))) std::uint64_t fake_cuda_kernels_run(int device);
/// Sets the speed of the devices' clocks relative to the host's clock. It is 1 at first.
__attribute__((visibility("default"))) void fake_cuda_clock_rate(double rate);
/// Waits until everything enqueued on the stream has run.
__attribute__((visibility("default"))) void fake_cuda_synchronize(dabke::cuda::Stream stream);
/// The calling thread begins to capture the stream, or ends the capture.
__attribute__((visibility("default"))) void fake_cuda_capture(dabke::cuda::Stream stream, bool begins);
/// Makes an event as a program does, and records it on the stream, also in a capture.
__attribute__((visibility("default"))) dabke::cuda::Event fake_cuda_record(dabke::cuda::Stream stream);
/// The device of the current context; -1 if there is none.
__attribute__((visibility("default"))) int fake_cuda_current_device();
__attribute__((visibility("default"))) int fake_cuda_stream_device(dabke::cuda::Stream stream);
__attribute__((visibility("default"))) void fake_cuda_enqueue(dabke::cuda::Stream stream, void (*run)(void*),
                                                              void* argument);
/// The number of operations ever enqueued on the stream.
__attribute__((visibility("default"))) std::uint64_t fake_cuda_enqueued(dabke::cuda::Stream stream);
/// Memory of a device for the tensors of a test, which no plan refuses. Free it by cuMemFree or, without a
/// context, by fake_cuda_free. Returns null if there is none left.
__attribute__((visibility("default"))) void* fake_cuda_allocate(int device, std::size_t bytes);
__attribute__((visibility("default"))) dabke::cuda::Error fake_cuda_free(dabke::cuda::Pointer memory);
/// The figures of the fake NCCL about memory that is registered with communicators.
__attribute__((visibility("default"))) dabke::test::NcclFigures fake_nccl_figures();
/// Waits a moment, or not, depending on the seed.
__attribute__((visibility("default"))) void fake_cuda_delay();
}

namespace dabke::test {
inline constexpr int kHangs = -1;
inline constexpr int kHangsForGood = -2;
// and below: the collective takes kTakes - outcome milliseconds longer
inline constexpr int kTakes = -10;
inline constexpr int kEndsWith = -1000;  // and below: the error is kEndsWith - outcome
}  // namespace dabke::test

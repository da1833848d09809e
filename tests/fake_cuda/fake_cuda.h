// A double of the CUDA driver and of NCCL, for tests where there is no GPU: two shared libraries of their names,
// which export the functions that Dabke calls (ops/nccl/cuda_driver.h, ops/nccl/nccl_library.h). It is never
// installed, and says on stderr that it is a double when it is first called.
//
// What it is: memory is the host's. A stream is a thread that does one thing after the other. A kernel is our own
// source, compiled for the host, thread by thread. NCCL's collectives go through shared memory, between threads and
// between processes; a communicator never blocks, is InProgress now and then, and ends when it is aborted. A call
// without the context that it needs is an error, as with the driver, or ends the process where nobody looks at errors; so
// is work on a stream on which NCCL has not enqueued its own yet, which NCCL only forbids, and the launch of a kernel
// that was not loaded before: a driver that loads late would do it beside a collective that runs. A stream that is being captured runs nothing, and a call that would
// break a capture is an error also while there is none: a thread must always have said how it takes captures. Two
// ranks on one device are an error, unless NCCL_HOSTID tells their hosts apart or, from version 2.30 on,
// NCCL_MULTI_RANK_GPU_ENABLE=1 allows it.
//
// What happens otherwise than well is a plan, of rules with a ';' between them: CALL DEVICE NTH WHAT. It is about
// the NTH (from 1) CALL on the device (a number, or * for each):
//   a number   that error is returned; one of CUDA from 700 on stays with the device, as a real one does
//   hang       a collective never ends on the device, unless its communicator is aborted
//   never      the same, and an abort does not help
//   takes=MS   a collective takes so much longer on the device, less than a second
//   async=N    a collective ends with error N, which ncclCommGetAsyncError tells
//   exit       the process ends
// FAKE_CUDA_PLAN has one, FAKE_CUDA_DEVICES how many devices there are (8), FAKE_CUDA_SEED that of random delays (0:
// none), FAKE_NCCL_VERSION what ncclGetVersion says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/nccl/cuda_driver.h"

namespace dabke::test {
/// Of all devices of the process.
struct NcclFigures {
  std::uint64_t buffers;  // of ncclMemAlloc, now
  std::uint64_t known;    // registered ones, now
  std::uint64_t runs;     // collectives whose memory was registered with their communicator, ever
  std::uint64_t
      beside;  // allocations and registrations while a collective was on its way on the device, ever
};
}  // namespace dabke::test

extern "C" {
/// Takes another plan from now on, and counts from 1 again; devices that were lost are well again.
__attribute__((visibility("default"))) void fake_cuda_plan(const char* plan, unsigned seed);
/// What the plan says of this call on this device: an error, or one of those below.
__attribute__((visibility("default"))) int fake_cuda_outcome(const char* call, int device);
/// A stream of a device, as a program makes one. Never destroyed.
__attribute__((visibility("default"))) dabke::cuda::Stream fake_cuda_open_stream(int device);
/// What a handle that is no address stands for: the device's legacy stream, or the calling thread's own there.
__attribute__((visibility("default"))) dabke::cuda::Stream fake_cuda_default_stream(std::uintptr_t handle,
                                                                                    int device);
/// How often an event with a time was recorded.
__attribute__((visibility("default"))) std::uint64_t fake_cuda_timed_events();
/// How many kernels have run to their end on the device.
__attribute__((visibility("default"))) std::uint64_t fake_cuda_kernels_run(int device);
/// How fast the devices' clocks go, against the host's; 1.
__attribute__((visibility("default"))) void fake_cuda_clock_rate(double rate);
/// Until all that was enqueued there has run.
__attribute__((visibility("default"))) void fake_cuda_synchronize(dabke::cuda::Stream stream);
/// The calling thread begins to capture what comes onto the stream, or ends that.
__attribute__((visibility("default"))) void fake_cuda_capture(dabke::cuda::Stream stream, bool begins);
/// An event as a program makes one, recorded there; in a capture, too.
__attribute__((visibility("default"))) dabke::cuda::Event fake_cuda_record(dabke::cuda::Stream stream);
/// The device of the current context; -1: there is none.
__attribute__((visibility("default"))) int fake_cuda_current_device();
__attribute__((visibility("default"))) int fake_cuda_stream_device(dabke::cuda::Stream stream);
__attribute__((visibility("default"))) void fake_cuda_enqueue(dabke::cuda::Stream stream, void (*run)(void*),
                                                              void* argument);
/// How much was ever enqueued there.
__attribute__((visibility("default"))) std::uint64_t fake_cuda_enqueued(dabke::cuda::Stream stream);
/// Memory of a device that no plan refuses, for the tensors of a test; freed by cuMemFree, or without a context by
/// fake_cuda_free. Null: there is none.
__attribute__((visibility("default"))) void* fake_cuda_allocate(int device, std::size_t bytes);
__attribute__((visibility("default"))) dabke::cuda::Error fake_cuda_free(dabke::cuda::Pointer memory);
/// Of the double of NCCL: what it knows of memory that is registered with communicators.
__attribute__((visibility("default"))) dabke::test::NcclFigures fake_nccl_figures();
/// Waits a moment, or not, by the seed.
__attribute__((visibility("default"))) void fake_cuda_delay();
}

namespace dabke::test {
inline constexpr int kHangs = -1;
inline constexpr int kHangsForGood = -2;
inline constexpr int kTakes = -10;       // and less: it takes kTakes - outcome milliseconds
inline constexpr int kEndsWith = -1000;  // and less: the error is kEndsWith - outcome
}  // namespace dabke::test

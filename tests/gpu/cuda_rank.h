// A rank of a job whose tensors are in the memory of a CUDA device.
#pragma once

#include "ops/nccl/nccl_process.h"
#include "tests/in_process/rank.h"

namespace dabke::test {

/// The driver and NCCL of this process. The runtime loads them in its module, and the tests load them here as
/// well.
ops::NcclProcess& cuda_process();
/// The driver of this process.
const cuda::Driver& cuda_driver();
int device_count();
void await_end(DeviceStream& stream);

/// Joins the job that the environment describes.
///   brings_tensors  tensors of the host are copied to the device for each call, and outputs back
Rank open_rank(bool brings_tensors, const Environment& environment = process_environment());
/// A rank's device: the one with its local rank, modulo the number of devices.
Device device_of(const World& world);

}  // namespace dabke::test

// A rank of a job whose tensors are in the memory of a CUDA device.
#pragma once

#include "ops/nccl/nccl_process.h"
#include "tests/in_process/rank.h"

namespace dabke::test {

/// The driver and NCCL of this process. The runtime has them by its module, and this beside it.
ops::NcclProcess& cuda_process();
/// This process's.
const cuda::Driver& cuda_driver();
int device_count();
void await_end(DeviceStream& stream);

/// Joins the job that the environment describes.
///   brings_tensors  tensors of the host are copied to the device for each call, and what comes out back
Rank open_rank(bool brings_tensors, const Environment& environment = process_environment());
/// That of a rank: the one of its number within the host, counted around where there are fewer.
Device device_of(const World& world);

}  // namespace dabke::test

// The CUDA device of a rank: a fake one (tests/fake_cuda), whose memory is host memory. Rank N has device N.
#pragma once

#include <cstddef>
#include <memory>

#include "random.h"
#include "tests/fake_cuda/program.h"

namespace storm {

/// Makes the doubles this process's driver and NCCL. Call it before the library starts a thread.
void load_doubles();

/// Ends the process if there is no memory.
std::byte* allocate_on_device(int device, std::size_t bytes);
void free_on_device(std::byte* memory);

/// One of a few streams of the program. Some are the calling thread's streams to which CUDA gives numbers.
fake_cuda::Stream stream_of(int device, int choice);

}  // namespace storm

// The CUDA device of a rank: one of the double's (tests/fake_cuda), whose memory is the host's in truth. Rank N has device N.
#pragma once

#include <cstddef>
#include <memory>

#include "random.h"
#include "tests/fake_cuda/program.h"

namespace storm {

/// The doubles become this process's driver and NCCL. Before any thread of the library's.
void load_doubles();

/// Ends the process where there is none.
std::byte* allocate_on_device(int device, std::size_t bytes);
void free_on_device(std::byte* memory);

/// One of a few streams on which the program works; some are those that CUDA has numbers for, of the calling thread's.
fake_cuda::Stream stream_of(int device, int choice);

}  // namespace storm

// What a device's stream makes of elements, held against the host's, to the bit: of the double in gpu_kernels_test.cc,
// of a real device in tests/gpu.
#pragma once

#include <string>
#include <vector>

#include "runtime/backend/device.h"

namespace dabke::test {

// A line for each thing that is otherwise.
/// Copies, scales and conversions of every dtype.
std::vector<std::string> wrong_copies(DeviceStream& stream);
/// Hundreds of pieces of any length, which begin anywhere.
std::vector<std::string> wrong_pieces(DeviceStream& stream);
std::vector<std::string> wrong_odd_addresses(DeviceStream& stream);
std::vector<std::string> wrong_neutral_elements(DeviceStream& stream);
/// To the host and back, and what is cleared.
std::vector<std::string> wrong_transfers(DeviceStream& stream);

}  // namespace dabke::test

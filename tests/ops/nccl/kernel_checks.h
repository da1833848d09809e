// Compares the results of a device's stream with the host's, bit by bit. gpu_kernels_test.cc uses
// a fake device, tests/gpu a real one.
#pragma once

#include <string>
#include <vector>

#include "runtime/backend/device.h"

namespace dabke::test {

// Each function returns a line for every difference.
/// Copies, scales and conversions of every dtype.
std::vector<std::string> wrong_copies(DeviceStream& stream);
/// Hundreds of pieces of any length, at any address.
std::vector<std::string> wrong_pieces(DeviceStream& stream);
std::vector<std::string> wrong_odd_addresses(DeviceStream& stream);
std::vector<std::string> wrong_neutral_elements(DeviceStream& stream);
/// Copies to the host and back, and cleared memory.
std::vector<std::string> wrong_transfers(DeviceStream& stream);

}  // namespace dabke::test

// A device of the fake CUDA driver (tests/fake_cuda), as a rank of a test has it.
#pragma once

#include "runtime/base/settings/config.h"
#include "tests/fake_device/fake_device.h"

namespace dabke::test {

/// Opens device `index` through the module that `config` names.
Result<std::shared_ptr<TestDevice>> open_double(const Config& config, int index);

}  // namespace dabke::test

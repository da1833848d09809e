// A folder of this process for what it writes: timelines and dumps.
#pragma once

#include <string>

namespace storm {

/// A path in it; the folder is there.
std::string scratch_path(const std::string& name);
void remove_scratch();

}  // namespace storm

// A folder of this process for its output files: timelines and dumps.
#pragma once

#include <string>

namespace storm {

/// Returns a path in the folder, which then exists.
std::string scratch_path(const std::string& name);
void remove_scratch();

}  // namespace storm

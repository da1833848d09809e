// The places of dabke-perf's own files, in the build and when installed.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace dabke::perf {

/// The file of this program, and its folder.
std::string program_path();
std::string program_folder();
/// The folder of vendor modules, beside libdabke.so.
std::string module_folder();
/// dabkerun: beside this program, where the build puts it, or on the PATH. Empty if it is nowhere.
std::string dabkerun_path();
/// The first of `names` on the PATH; empty if there is none.
std::string find_program(std::initializer_list<const char*> names);
/// The file of a model. `name` is a path, or the name of a model that comes with dabke-perf.
Result<std::string> model_path(const std::string& name);

}  // namespace dabke::perf

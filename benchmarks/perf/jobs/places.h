// The places where dabke-perf finds what belongs to it, in the build and when installed.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace dabke::perf {

/// This program's file, and its folder.
std::string program_path();
std::string program_folder();
/// The vendor modules' folder, beside libdabke.so.
std::string module_folder();
/// dabkerun: beside this program, or where the build puts it, or on the PATH. Empty: nowhere.
std::string dabkerun_path();
/// The first of `names` on the PATH; empty: none.
std::string find_program(std::initializer_list<const char*> names);
/// The file of a model: itself a path, or the name of one that comes with dabke-perf.
Result<std::string> model_path(const std::string& name);

}  // namespace dabke::perf

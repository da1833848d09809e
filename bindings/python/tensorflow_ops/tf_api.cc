#include "bindings/python/tensorflow_ops/tf_api.h"

#include <dlfcn.h>

#include <array>

namespace dabke::python::tensorflow {
namespace {

/// The address of `name` in the libraries of TensorFlow that are loaded. Python loads them for itself alone,
/// so the loader is asked for each by its name.
void* find(const char* name) {
  static const std::array kLibraries = {::dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD),
                                        ::dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD)};
  for (void* const library : kLibraries) {
    if (library == nullptr) continue;
    if (void* const found = ::dlsym(library, name)) return found;
  }
  return ::dlsym(RTLD_DEFAULT, name);
}

template <class Function>
void look_up(const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(find(name));
  if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
}

TensorflowApi find_all() {
  TensorflowApi api;
#define X(name, ...) look_up(#name, api.name, api.missing);
  DABKE_TENSORFLOW_FUNCTIONS(X)
#undef X
  return api;
}

}  // namespace

const TensorflowApi& tf() {
  static const TensorflowApi kApi = find_all();
  return kApi;
}

}  // namespace dabke::python::tensorflow

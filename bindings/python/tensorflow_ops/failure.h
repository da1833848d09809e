// Errors of the runtime, and their form in TensorFlow.
#pragma once

#include <string>

#include "bindings/python/tensorflow_ops/tf_api.h"
#include "dabke/dabke.h"

namespace dabke::python::tensorflow {

/// An error of a call; DABKE_OK: none.
struct Failure {
  dabke_status status = DABKE_OK;
  std::string text;

  explicit operator bool() const { return status != DABKE_OK; }
};

/// The failure of the calling thread's last call of the C API.
Failure last_failure(dabke_status status);

/// Fails the kernel with the code that is nearest and the whole text. The payload `dabke.status` has the
/// status, and `dabke.text` the text alone, for Python.
void report(TF_OpKernelContext* context, const Failure& failure);

}  // namespace dabke::python::tensorflow

// The kernels of the collectives, in the forms of docs/python/tensorflow.md: blocking, asynchronous, and in
// two parts.
#pragma once

#include "bindings/python/tensorflow_ops/tf_api.h"
#include "dabke/dabke.h"

namespace dabke::python::tensorflow {

/// The forms of each collective's op.
enum class Form {
  asynchronous,  // submits and returns; the runtime's completion ends the op
  blocking,      // returns with the result
  submit,        // submits and gives a ticket
  wait,          // takes the ticket and returns with the result
};

/// Registers the kernel of the op `name` on the CPU.
void register_kernel(const char* name, dabke_collective collective, Form form, TF_Status* status);

}  // namespace dabke::python::tensorflow

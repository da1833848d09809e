// Ops that give a number of the job when they run: rank, size and the like.
#pragma once

#include "bindings/python/tensorflow_ops/tf_api.h"

namespace dabke::python::tensorflow {

/// Registers the op DabkeNumber with its kernel.
void register_numbers(TF_Status* status);

}  // namespace dabke::python::tensorflow

// The shapes of outputs, as far as they are known before a graph runs.
#pragma once

#include "bindings/python/tensorflow_ops/tf_api.h"

namespace dabke::python::tensorflow {

/// Output i has the shape of input i. The last `further` inputs have no output.
void keep_shapes(TF_ShapeInferenceContext* context, int further, TF_Status* status);
/// The same with any number of rows.
void free_rows(TF_ShapeInferenceContext* context, int further, TF_Status* status);
/// The only output is a scalar.
void scalar(TF_ShapeInferenceContext* context, TF_Status* status);

}  // namespace dabke::python::tensorflow

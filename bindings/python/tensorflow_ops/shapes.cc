#include "bindings/python/tensorflow_ops/shapes.h"

#include <limits>

#include "bindings/python/tensorflow_ops/owned.h"

namespace dabke::python::tensorflow {
namespace {

bool is_ok(const TF_Status* status) { return tf().TF_GetCode(status) == TF_OK; }

Shape new_shape() { return Shape(tf().TF_NewShapeHandle()); }

/// The shape with an unknown number of rows; null where the shape has no rows.
Shape with_free_rows(TF_ShapeInferenceContext* context, TF_ShapeHandle* shape, TF_Status* status) {
  if (tf().TF_ShapeInferenceContextRankKnown(context, shape) == 0) return nullptr;
  if (tf().TF_ShapeInferenceContextRank(context, shape) < 1)
    return nullptr;  // the runtime refuses it with its name
  Shape row = new_shape(), result = new_shape();
  tf().TF_ShapeInferenceContextSubshape(context, shape, 1, std::numeric_limits<std::int64_t>::max(),
                                        row.get(), status);
  if (!is_ok(status)) return nullptr;
  constexpr auto kUnknown = static_cast<std::size_t>(-1);
  const Shape rows(tf().TF_ShapeInferenceContextVectorFromSize(context, kUnknown));
  tf().TF_ShapeInferenceContextConcatenateShapes(context, rows.get(), row.get(), result.get(), status);
  return is_ok(status) ? std::move(result) : nullptr;
}

}  // namespace

void keep_shapes(TF_ShapeInferenceContext* context, int further, TF_Status* status) {
  const auto count = static_cast<int>(tf().TF_ShapeInferenceContextNumInputs(context)) - further;
  for (int i = 0; i < count && is_ok(status); ++i) {
    const Shape shape = new_shape();
    tf().TF_ShapeInferenceContextGetInput(context, i, shape.get(), status);
    if (is_ok(status)) tf().TF_ShapeInferenceContextSetOutput(context, i, shape.get(), status);
  }
}

void free_rows(TF_ShapeInferenceContext* context, int further, TF_Status* status) {
  tf().TF_ShapeInferenceContextSetUnknownShape(context, status);
  const auto count = static_cast<int>(tf().TF_ShapeInferenceContextNumInputs(context)) - further;
  for (int i = 0; i < count && is_ok(status); ++i) {
    const Shape shape = new_shape();
    tf().TF_ShapeInferenceContextGetInput(context, i, shape.get(), status);
    if (!is_ok(status)) return;
    const Shape output = with_free_rows(context, shape.get(), status);
    if (output && is_ok(status)) tf().TF_ShapeInferenceContextSetOutput(context, i, output.get(), status);
  }
}

void scalar(TF_ShapeInferenceContext* context, TF_Status* status) {
  const Shape shape(tf().TF_ShapeInferenceContextScalar(context));
  tf().TF_ShapeInferenceContextSetOutput(context, 0, shape.get(), status);
}

}  // namespace dabke::python::tensorflow

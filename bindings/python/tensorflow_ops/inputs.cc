#include "bindings/python/tensorflow_ops/inputs.h"

#include "bindings/python/tensorflow_ops/dtypes.h"

namespace dabke::python::tensorflow {
namespace {

std::vector<std::string> strings_in(const TF_Tensor* tensor) {
  const auto* const first = static_cast<const char*>(tf().TF_TensorData(tensor));
  std::vector<std::string> strings;
  for (std::int64_t i = 0; i < tf().TF_TensorElementCount(tensor); ++i) {
    const auto* const each =
        reinterpret_cast<const TF_TString*>(first + kTStringSize * static_cast<std::size_t>(i));
    strings.emplace_back(tf().TF_StringGetDataPointer(each), tf().TF_StringGetSize(each));
  }
  return strings;
}

std::vector<std::int64_t> numbers_in(const TF_Tensor* tensor) {
  const auto* const first = static_cast<const std::int64_t*>(tf().TF_TensorData(tensor));
  return {first, first + tf().TF_TensorElementCount(tensor)};
}

}  // namespace

Described::Described(const TF_Tensor* tensor)
    : dtype(tf().TF_TensorType(tensor)), data(tf().TF_TensorData(tensor)) {
  for (int i = 0; i < tf().TF_NumDims(tensor); ++i) shape.push_back(tf().TF_Dim(tensor, i));
}

DLTensor Described::view() const {
  return {data,
          {kDLCPU, 0},
          static_cast<std::int32_t>(shape.size()),
          dlpack_of(dtype),
          const_cast<std::int64_t*>(shape.data()),
          nullptr,
          0};
}

Tensor input_of(TF_OpKernelContext* context, int index, Failure& failure) {
  TF_Tensor* tensor = nullptr;
  const TfStatus status;
  tf().TF_GetInput(context, index, &tensor, status.get());
  if (!status.is_ok()) failure = {DABKE_ERROR_INTERNAL, status.message()};
  return Tensor(tensor);
}

Failure read_inputs(TF_OpKernelContext* context, bool has_splits, int further, Inputs& inputs) {
  Failure failure;
  const int names_at = tf().TF_NumInputs(context) - further - 1;
  const int count = names_at - (has_splits ? 1 : 0);
  const Tensor names = input_of(context, names_at, failure);
  if (failure) return failure;
  inputs.names = strings_in(names.get());
  if (inputs.names.size() != static_cast<std::size_t>(count)) {
    return {DABKE_ERROR_INVALID_ARGUMENT, "a collective of " + std::to_string(count) + " tensors has " +
                                              std::to_string(inputs.names.size()) + " names; give one each"};
  }
  if (has_splits) {
    const Tensor splits = input_of(context, count, failure);
    if (failure) return failure;
    inputs.splits = numbers_in(splits.get());
  }
  for (int i = 0; i < count && !failure; ++i) inputs.tensors.push_back(input_of(context, i, failure));
  return failure;
}

}  // namespace dabke::python::tensorflow

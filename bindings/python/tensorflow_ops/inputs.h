// The inputs of a kernel: the tensors of a collective, its splits and its names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/python/tensorflow_ops/failure.h"
#include "bindings/python/tensorflow_ops/owned.h"

namespace dabke::python::tensorflow {

/// A tensor as the runtime takes it. It refers to the shape that it keeps, so it is moved with care: see
/// `view`.
struct Described {
  TF_DataType dtype = TF_FLOAT;
  std::vector<std::int64_t> shape;
  void* data = nullptr;

  explicit Described(const TF_Tensor* tensor);

  /// Valid for as long as this object stays where it is.
  DLTensor view() const;
};

struct Inputs {
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> splits;
  std::vector<std::string> names;
};

/// Input number `index` of the kernel; null after a failure.
Tensor input_of(TF_OpKernelContext* context, int index, Failure& failure);

/// Reads the inputs of a collective's kernel: its tensors, then splits where `has_splits`, then as many names
/// as tensors, then `further` inputs, which are not read.
Failure read_inputs(TF_OpKernelContext* context, bool has_splits, int further, Inputs& inputs);

}  // namespace dabke::python::tensorflow

// Owners of TensorFlow's objects.
#pragma once

#include <memory>
#include <string>

#include "bindings/python/tensorflow_ops/tf_api.h"

namespace dabke::python::tensorflow {

struct DeleteTensor {
  void operator()(TF_Tensor* tensor) const { tf().TF_DeleteTensor(tensor); }
};
using Tensor = std::unique_ptr<TF_Tensor, DeleteTensor>;

struct DeleteShape {
  void operator()(TF_ShapeHandle* shape) const { tf().TF_DeleteShapeHandle(shape); }
};
using Shape = std::unique_ptr<TF_ShapeHandle, DeleteShape>;

/// A status of TensorFlow, which its functions fill.
class TfStatus {
 public:
  TfStatus() : status_(tf().TF_NewStatus()) {}
  ~TfStatus() { tf().TF_DeleteStatus(status_); }
  TfStatus(const TfStatus&) = delete;
  TfStatus& operator=(const TfStatus&) = delete;

  TF_Status* get() const { return status_; }
  bool is_ok() const { return tf().TF_GetCode(status_) == TF_OK; }
  std::string message() const { return tf().TF_Message(status_); }

 private:
  TF_Status* status_;
};

}  // namespace dabke::python::tensorflow

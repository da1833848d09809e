// The library dabke_tensorflow.so. tf.load_op_library loads it, which registers the ops and their kernels.
#include <string>

#include "bindings/python/tensorflow_ops/call.h"
#include "bindings/python/tensorflow_ops/dtypes.h"
#include "bindings/python/tensorflow_ops/kernels.h"
#include "bindings/python/tensorflow_ops/numbers.h"
#include "bindings/python/tensorflow_ops/owned.h"
#include "bindings/python/tensorflow_ops/shapes.h"

namespace dabke::python::tensorflow {
namespace {

struct CollectiveRow {
  dabke_collective collective;
  const char* op;  // followed by the form's suffix
};
constexpr CollectiveRow kCollectives[] = {{DABKE_ALLREDUCE, "DabkeAllreduce"},
                                          {DABKE_ALLGATHER, "DabkeAllgather"},
                                          {DABKE_BROADCAST, "DabkeBroadcast"},
                                          {DABKE_ALLTOALL, "DabkeAlltoall"},
                                          {DABKE_REDUCESCATTER, "DabkeReducescatter"}};

struct FormRow {
  Form form;
  const char* suffix;
};
constexpr FormRow kForms[] = {
    {Form::asynchronous, ""}, {Form::blocking, "Blocking"}, {Form::submit, "Submit"}, {Form::wait, "Wait"}};

/// The inputs without an output, kFurther of them, are the names, an alltoall's splits and a ticket.
template <bool kKeepsShape, int kFurther>
void infer(TF_ShapeInferenceContext* context, TF_Status* status) {
  (kKeepsShape ? keep_shapes : free_rows)(context, kFurther, status);
}

InferShapes shapes_of(dabke_collective collective, Form form) {
  if (form == Form::submit) return &scalar;
  const bool has_ticket = form == Form::wait;
  if (collective == DABKE_ALLREDUCE || collective == DABKE_BROADCAST) {
    return has_ticket ? &infer<true, 2> : &infer<true, 1>;
  }
  if (collective == DABKE_ALLTOALL) return has_ticket ? &infer<false, 3> : &infer<false, 2>;
  return has_ticket ? &infer<false, 2> : &infer<false, 1>;
}

void register_op(const std::string& name, dabke_collective collective, Form form, TF_Status* status) {
  const bool has_splits = collective == DABKE_ALLTOALL;
  TF_OpDefinitionBuilder* const op = tf().TF_NewOpDefinitionBuilder(name.c_str());
  tf().TF_OpDefinitionBuilderAddAttr(op, kTypeList);
  for (const char* const attribute : kCallAttributes) tf().TF_OpDefinitionBuilderAddAttr(op, attribute);
  tf().TF_OpDefinitionBuilderAddInput(op, "tensors: T");
  if (has_splits) tf().TF_OpDefinitionBuilderAddInput(op, "splits: int64");
  tf().TF_OpDefinitionBuilderAddInput(op, "names: string");
  if (form == Form::wait) tf().TF_OpDefinitionBuilderAddInput(op, "ticket: int64");
  if (form == Form::submit) {
    tf().TF_OpDefinitionBuilderAddOutput(op, "ticket: int64");
  } else {
    tf().TF_OpDefinitionBuilderAddOutput(op, "outputs: T");
    if (has_splits) tf().TF_OpDefinitionBuilderAddOutput(op, "received_splits: int32");
  }
  tf().TF_OpDefinitionBuilderSetIsStateful(op,
                                           true);  // neither folded, nor merged with another, nor left out
  tf().TF_OpDefinitionBuilderSetShapeInferenceFunction(op, shapes_of(collective, form));
  tf().TF_RegisterOpDefinition(op, status);
}

/// Registers everything; the text of what went wrong, or "".
std::string register_all() {
  if (!tf().missing.empty()) return "TensorFlow lacks the functions " + tf().missing;
  for (const CollectiveRow& row : kCollectives) {
    for (const FormRow& form : kForms) {
      const std::string name = std::string(row.op) + form.suffix;
      const TfStatus status;
      register_op(name, row.collective, form.form, status.get());
      if (status.is_ok()) register_kernel(name.c_str(), row.collective, form.form, status.get());
      if (!status.is_ok()) return name + ": " + status.message();
    }
  }
  const TfStatus status;
  register_numbers(status.get());
  return status.is_ok() ? "" : "DabkeNumber: " + status.message();
}

const std::string& error() {
  static const std::string kError = register_all();
  return kError;
}

/// Called by the loader, before tf.load_op_library asks which ops are new.
[[gnu::constructor]] void on_load() { error(); }

}  // namespace
}  // namespace dabke::python::tensorflow

/// The reason why the ops could not be registered, or "". For library.py.
extern "C" __attribute__((visibility("default"))) const char* dabke_tensorflow_error() {
  return dabke::python::tensorflow::error().c_str();
}

#include "bindings/python/tensorflow_ops/numbers.h"

#include <memory>

#include "bindings/python/tensorflow_ops/failure.h"
#include "bindings/python/tensorflow_ops/owned.h"
#include "bindings/python/tensorflow_ops/shapes.h"

namespace dabke::python::tensorflow {
namespace {

/// The numbers by the attribute `number`; dabke/tensorflow/numbers.py has the same order.
enum class Number : std::int64_t { rank, size, local_rank, local_size, set_size, set_included };

struct Question {
  Number number;
  dabke_process_set process_set;
};

void* create_question(TF_OpKernelConstruction* construction) {
  std::int64_t number = 0, process_set = 0;
  const TfStatus status;
  tf().TF_OpKernelConstruction_GetAttrInt64(construction, "number", &number, status.get());
  tf().TF_OpKernelConstruction_GetAttrInt64(construction, "process_set", &process_set, status.get());
  if (!status.is_ok()) tf().TF_OpKernelConstruction_Failure(construction, status.get());
  return new Question{static_cast<Number>(number), static_cast<dabke_process_set>(process_set)};
}

void delete_question(void* kernel) { delete static_cast<Question*>(kernel); }

Failure answer(const Question& question, std::int32_t& value) {
  if (dabke_is_initialized() == 0) {
    return {DABKE_ERROR_NOT_INITIALIZED, "Dabke has not been initialized; call init first"};
  }
  dabke_status status = DABKE_OK;
  int included = 0;
  switch (question.number) {
    case Number::rank: value = dabke_rank(); break;
    case Number::size: value = dabke_size(); break;
    case Number::local_rank: value = dabke_local_rank(); break;
    case Number::local_size: value = dabke_local_size(); break;
    case Number::set_size: status = dabke_process_set_size(question.process_set, &value); break;
    case Number::set_included:
      status = dabke_process_set_included(question.process_set, &included);
      value = included;
      break;
  }
  return status == DABKE_OK ? Failure{} : last_failure(status);
}

void compute_number(void* kernel, TF_OpKernelContext* context) {
  std::int32_t value = 0;
  if (const Failure failure = answer(*static_cast<const Question*>(kernel), value))
    return report(context, failure);
  const Tensor output(tf().TF_AllocateTensor(TF_INT32, nullptr, 0, sizeof value));
  *static_cast<std::int32_t*>(tf().TF_TensorData(output.get())) = value;
  const TfStatus status;
  tf().TF_SetOutput(context, 0, output.get(), status.get());
}

}  // namespace

void register_numbers(TF_Status* status) {
  constexpr char kName[] = "DabkeNumber";
  TF_OpDefinitionBuilder* const op = tf().TF_NewOpDefinitionBuilder(kName);
  tf().TF_OpDefinitionBuilderAddAttr(op, "number: int");
  tf().TF_OpDefinitionBuilderAddAttr(op, "process_set: int = 0");
  tf().TF_OpDefinitionBuilderAddOutput(op, "value: int32");
  tf().TF_OpDefinitionBuilderSetIsStateful(op, true);  // it may differ in the next job
  tf().TF_OpDefinitionBuilderSetShapeInferenceFunction(op, &scalar);
  tf().TF_RegisterOpDefinition(op, status);
  if (tf().TF_GetCode(status) != TF_OK) return;
  tf().TF_RegisterKernelBuilder(
      kName, tf().TF_NewKernelBuilder(kName, "CPU", &create_question, &compute_number, &delete_question),
      status);
}

}  // namespace dabke::python::tensorflow

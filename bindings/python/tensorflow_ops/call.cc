#include "bindings/python/tensorflow_ops/call.h"

#include <bit>

#include "bindings/python/tensorflow_ops/owned.h"

namespace dabke::python::tensorflow {

Failure read_attributes(TF_OpKernelConstruction* construction, Call& call) {
  Failure failure;
  const auto read = [&](const char* name) {
    std::int64_t value = 0;
    const TfStatus status;
    tf().TF_OpKernelConstruction_GetAttrInt64(construction, name, &value, status.get());
    if (!status.is_ok() && !failure) failure = {DABKE_ERROR_INTERNAL, status.message()};
    return value;
  };
  call.is_group = read("group") != 0;
  call.options.process_set = static_cast<dabke_process_set>(read("process_set"));
  call.options.op = static_cast<dabke_reduce_op>(read("reduce_op"));
  call.options.root_rank = static_cast<std::int32_t>(read("root_rank"));
  call.options.prescale_factor = std::bit_cast<double>(read("prescale"));
  call.options.postscale_factor = std::bit_cast<double>(read("postscale"));
  call.options.compression = static_cast<dabke_compression>(read("compression"));
  call.options.priority = static_cast<std::int32_t>(read("priority"));
  return failure;
}

}  // namespace dabke::python::tensorflow

// The compiled part of the package: the C API in Python's types, and no more. What a call means and which defaults
// it has is the package's business; what the memory of a tensor is, and how long it must live, is settled here.
#include <string>
#include <string_view>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/dtypes.h"
#include "bindings/python/core/options.h"

namespace dabke::python {
namespace {

namespace nb = nanobind;

/// The statuses by their names in the C API, such as "peer_lost". They are numbered from 0 without a gap.
nb::dict statuses() {
  nb::dict out;
  for (int number = 0;; ++number) {
    const char* const name = dabke_status_name(static_cast<dabke_status>(number));
    if (std::string_view(name) == "unknown") return out;
    out[name] = number;
  }
}

nb::dict reduce_ops() {
  nb::dict out;
  out["AVERAGE"] = int{DABKE_AVERAGE};
  out["SUM"] = int{DABKE_SUM};
  out["ADASUM"] = int{DABKE_ADASUM};
  out["MIN"] = int{DABKE_MIN};
  out["MAX"] = int{DABKE_MAX};
  out["PRODUCT"] = int{DABKE_PRODUCT};
  out["BITWISE_AND"] = int{DABKE_BITWISE_AND};
  out["BITWISE_OR"] = int{DABKE_BITWISE_OR};
  out["BITWISE_XOR"] = int{DABKE_BITWISE_XOR};
  return out;
}

nb::dict compressions() {
  nb::dict out;
  out["NONE"] = int{DABKE_COMPRESSION_NONE};
  out["FLOAT16"] = int{DABKE_COMPRESSION_FLOAT16};
  out["BFLOAT16"] = int{DABKE_COMPRESSION_BFLOAT16};
  out["DEFAULT"] = int{DABKE_COMPRESSION_DEFAULT};
  return out;
}

/// Numbers, sizes in bytes and letters of the buffer protocol, by the NumPy names of the dtypes.
void bind_dtypes(nb::module_& module) {
  nb::dict numbers;
  nb::dict sizes;
  nb::dict formats;
  for (const DtypeRow& row : kDtypes) {
    const nb::str name(row.name.data(), row.name.size());
    numbers[name] = number_of(row.dtype);
    sizes[name] = row.dtype.bits / 8;
    formats[name] = row.format;
  }
  module.attr("dtypes") = numbers;
  module.attr("dtype_bytes") = sizes;
  module.attr("dtype_formats") = formats;
}

/// The numbers of dabke.h and dlpack.h, by their names. The package reads them here, so that none is written
/// twice.
void bind_constants(nb::module_& module) {
  module.attr("statuses") = statuses();
  module.attr("reduce_ops") = reduce_ops();
  module.attr("compressions") = compressions();
  bind_dtypes(module);
  module.attr("WORLD") = int{DABKE_WORLD};
  module.attr("CPU") = int{kDLCPU};
  module.attr("CUDA") = int{kDLCUDA};
  module.attr("LEGACY_STREAM") = kLegacyStream;
}

}  // namespace
}  // namespace dabke::python

NB_MODULE(_core, module) {
  using namespace dabke::python;
  nanobind::set_leak_warnings(false);  // handles that are alive when the interpreter ends are no leak
  bind_constants(module);
  bind_refusal(module);
  bind_options(module);
  bind_tensor(module);
  bind_handle(module);
  bind_collectives(module);
  bind_job(module);
  bind_process_sets(module);
  bind_memory(module);
  bind_statistics(module);
  bind_stacks(module);
}

// The numbers of dabke.h and dlpack.h, by their names. The package in Python reads them here and does not
// repeat them.
#include <string_view>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/dtypes.h"
#include "bindings/python/core/options.h"
#include "bindings/python/core/text.h"

namespace dabke::python {
namespace {

namespace nb = nanobind;

using Numbers = nb::typed<nb::dict, nb::str, int>;

/// The numbers of an enum by their names in `name_of`. They count from 0 without a gap.
template <class Enum, const char* (*name_of)(Enum)>
Numbers numbers() {
  Numbers out;
  for (int number = 0;; ++number) {
    const char* const name = name_of(static_cast<Enum>(number));
    if (std::string_view(name) == "unknown") return out;
    out[name] = number;
  }
}

Numbers dtypes() {
  Numbers out;
  for (const DtypeRow& row : dtype_rows())
    out[nb::str(row.name.data(), row.name.size())] = number_of(row.dtype);
  return out;
}

}  // namespace

void bind_numbers(nb::module_& module) {
  module.def("statuses", &numbers<dabke_status, &dabke_status_name>,
             "The numbers of dabke_status by their names, such as \"peer_lost\".");
  module.def("reduce_ops", &numbers<dabke_reduce_op, &dabke_reduce_op_name>,
             "The numbers of dabke_reduce_op by their names, such as \"average\".");
  module.def("compressions", &numbers<dabke_compression, &dabke_compression_name>,
             "The numbers of dabke_compression by their names, such as \"float16\".");
  module.def("dtypes", &dtypes, "The numbers that Tensor takes, by the NumPy names of the dtypes.");
  module.def(
      "dtype_bytes", [](nb::str name) { return row_named(utf8_of(name, "the dtype")).dtype.bits / 8; },
      nb::arg("name"), "The size of an element of this dtype, in bytes.");
  module.def(
      "dtype_format", [](nb::str name) { return nb::str(row_named(utf8_of(name, "the dtype")).format); },
      nb::arg("name"),
      "The dtype's letter in the buffer protocol; bfloat16 has the letter of 16-bit integers.");
  module.attr("WORLD") = int{DABKE_WORLD};        // the process set of all ranks
  module.attr("ANY_RANK") = int{DABKE_ANY_RANK};  // the peer of a receive from whichever rank sends
  module.attr("CPU") = int{kDLCPU};               // DLPack's type of the host
  module.attr("CUDA") = int{kDLCUDA};             // DLPack's type of CUDA devices
  module.attr("LEGACY_STREAM") = kLegacyStream;   // CUDA's default stream; 0 would mean none
}

}  // namespace dabke::python

// The names of the numbers, so that bindings need not list the numbers again.
#include "bindings/c/numbers.h"

#include "bindings/c/dlpack_dtype.h"
#include "runtime/base/status.h"

using namespace dabke;

namespace {

template <class Row>
const char* name_or_unknown(std::optional<Row> row) {
  return row ? name_of(*row).data() : "unknown";
}

}  // namespace

extern "C" {

const char* dabke_status_name(dabke_status status) { return name_of(static_cast<Code>(status)).data(); }
const char* dabke_status_text(dabke_status status) { return text_of(static_cast<Code>(status)).data(); }

const char* dabke_reduce_op_name(dabke_reduce_op op) { return name_or_unknown(row_in<ReduceOp>(op)); }

const char* dabke_compression_name(dabke_compression compression) {
  if (number_in(compression) == DABKE_COMPRESSION_DEFAULT) return "default";
  return name_or_unknown(row_in<Compression>(compression));
}

const char* dabke_collective_name(dabke_collective collective) {
  return name_or_unknown(collective_in(collective));
}

const char* dabke_dtype_name(size_t index, DLDataType* dtype) {
  if (index >= kDTypes.size()) return nullptr;
  if (dtype != nullptr) *dtype = dlpack_dtype(kDTypes[index]);
  return name_of(kDTypes[index]).data();
}

}  // extern "C"

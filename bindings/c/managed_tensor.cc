// Outputs as DLPack tensors that own themselves: each holds a reference to its handle.
#include <algorithm>
#include <vector>

#include "bindings/c/handle_output.h"
#include "bindings/c/state.h"
#include "bindings/c/tensor.h"

using namespace dabke;

namespace {

void set_version(DLManagedTensor&) {}
void set_version(DLManagedTensorVersioned& tensor) {
  tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  tensor.flags = 0;  // writable, and not a copy
}

/// A DLManagedTensor or DLManagedTensorVersioned, with the handle and the strides that it refers to. The
/// shape belongs to the handle.
template <class Managed>
struct Export {
  Managed tensor{};
  OperationRef handle;
  std::vector<std::int64_t> strides;  // newer consumers need them, also for compact tensors

  Export(dabke_handle* of, const TensorView& view) : handle(of), strides(view.shape.rank()) {
    std::int64_t stride = 1;
    for (std::size_t i = strides.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= std::max<std::int64_t>(view.shape[i], 1);
    }
    tensor.dl_tensor = to_dlpack(view);
    tensor.dl_tensor.strides = strides.data();
    tensor.manager_ctx = this;
    tensor.deleter = [](Managed* self) { delete static_cast<Export*>(self->manager_ctx); };
    set_version(tensor);
  }
};

template <class Managed>
dabke_status hand_over(dabke_handle* handle, std::size_t index, Managed** output) {
  if (output != nullptr) *output = nullptr;
  return entry([&]() -> Status {
    DABKE_ASSIGN_OR_RETURN(const TensorView* const view, settled_output(handle, index));
    if (output == nullptr) return {Code::invalid_argument, "output is NULL; pass a pointer for the tensor"};
    *output = &(new Export<Managed>(handle, *view))->tensor;
    return {};
  });
}

}  // namespace

extern "C" {

dabke_status dabke_handle_output_dlpack(dabke_handle* handle, size_t index, DLManagedTensor** output) {
  return hand_over(handle, index, output);
}
dabke_status dabke_handle_output_dlpack_versioned(dabke_handle* handle, size_t index,
                                                  struct DLManagedTensorVersioned** output) {
  return hand_over(handle, index, output);
}

}  // extern "C"

#include "bindings/c/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bindings/c/dlpack_dtype.h"
#include "bindings/c/numbers.h"
#include "runtime/base/possible_shape.h"

namespace dabke {
namespace {

std::string dlpack_dtype_name(DLDataType dtype) {
  constexpr const char* kCodes[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  std::string name =
      dtype.code < std::size(kCodes) ? kCodes[dtype.code] : fmt::format("code {} ", dtype.code);
  return fmt::format("{}{}{}", name, dtype.bits, dtype.lanes == 1 ? "" : fmt::format("x{}", dtype.lanes));
}

Result<Device> device_from(const DLDevice& device, const TensorRole& role) {
  const int type = number_in(device.device_type);
  switch (type) {
    case kDLCPU:
    case kDLCUDAHost: return Device{DeviceType::host, 0};
    case kDLCUDA:
    case kDLCUDAManaged: return Device{DeviceType::cuda, device.device_id};
  }
  return Status(Code::unsupported, fmt::format("{}: device type {} is not supported; use host or CUDA memory",
                                               role.to_string(), type));
}

Status check_compact(const DLTensor& tensor, const TensorRole& role) {
  if (tensor.strides == nullptr) return {};
  std::int64_t elements = 1;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) elements *= tensor.shape[i];
  if (elements == 0) return {};
  std::int64_t wanted = 1;
  for (std::int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != wanted) {
      const std::span<const std::int64_t> strides(tensor.strides, static_cast<std::size_t>(tensor.ndim));
      return {Code::invalid_argument,
              fmt::format("{}: the tensor has strides [{}], but must be compact and row-major; "
                          "pass a contiguous copy",
                          role.to_string(), fmt::join(strides, ", "))};
    }
    wanted *= tensor.shape[i];
  }
  return {};
}

}  // namespace

std::string TensorRole::to_string() const { return name_of_call(kind, name) + (is_output ? ", output" : ""); }

Result<TensorView> from_dlpack(const DLTensor* tensor, const TensorRole& role) {
  if (tensor == nullptr)
    return Status(Code::invalid_argument, fmt::format("{}: the tensor is NULL", role.to_string()));
  const auto dtype = dtype_from_dlpack(tensor->dtype);
  if (!dtype) {
    return Status(Code::unsupported, fmt::format("{}: dtype {} is not supported", role.to_string(),
                                                 dlpack_dtype_name(tensor->dtype)));
  }
  if (tensor->ndim < 0 || tensor->ndim > DABKE_MOST_DIMENSIONS ||
      (tensor->ndim > 0 && tensor->shape == nullptr)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: ndim {} needs a shape and must be between 0 and {}", role.to_string(),
                              tensor->ndim, DABKE_MOST_DIMENSIONS));
  }
  const Shape shape(std::span<const std::int64_t>(tensor->shape, static_cast<std::size_t>(tensor->ndim)));
  if (!is_possible(shape, *dtype)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: impossible shape {}", role.to_string(), shape.to_string()));
  }
  DABKE_RETURN_IF_ERROR(check_compact(*tensor, role));
  DABKE_ASSIGN_OR_RETURN(const Device device, device_from(tensor->device, role));
  void* data = tensor->data ? static_cast<std::byte*>(tensor->data) + tensor->byte_offset : nullptr;
  return TensorView{data, *dtype, device, shape};
}

DLTensor to_dlpack(const TensorView& view) {
  DLTensor out{};
  out.data = view.data;
  out.device = {view.device.type == DeviceType::host ? kDLCPU : kDLCUDA, view.device.index};
  out.ndim = static_cast<std::int32_t>(view.shape.rank());
  out.dtype = dlpack_dtype(view.dtype);
  out.shape = const_cast<std::int64_t*>(view.shape.dims().data());
  return out;
}

}  // namespace dabke

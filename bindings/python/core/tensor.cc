#include "bindings/python/core/tensor.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <optional>

#include "bindings/python/core/dtypes.h"

namespace dabke::python {
namespace {

constexpr const char* kCapsule = "dltensor";
constexpr const char* kUsedCapsule = "used_dltensor";

std::string name_of_type(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

/// What the buffer protocol's `format` means; nothing for what DLPack has no word for, as other byte orders.
std::optional<DLDataType> dtype_of_format(const char* format, Py_ssize_t item_bytes) {
  if (format == nullptr) return DLDataType{kDLUInt, 8, 1};
  if (std::strchr("@=<", *format) != nullptr && *format != '\0') ++format;
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  const auto bits = static_cast<std::uint8_t>(item_bytes * 8);
  if (*format == '?') return DLDataType{kDLBool, bits, 1};
  if (std::strchr("bhilqn", *format) != nullptr) return DLDataType{kDLInt, bits, 1};
  if (std::strchr("cBHILQN", *format) != nullptr) return DLDataType{kDLUInt, bits, 1};
  if (std::strchr("efd", *format) != nullptr) return DLDataType{kDLFloat, bits, 1};
  return std::nullopt;
}

}  // namespace

Tensor::Tensor(std::uintptr_t pointer, nb::handle shape, int dtype, int device_type, int device_index,
               nb::object owner)
    : owner_(std::move(owner)) {
  const nb::object dims = nb::steal(PySequence_Fast(shape.ptr(), "shape must be a sequence of integers"));
  if (!dims.is_valid()) nb::raise_python_error();
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(dims.ptr());
  dims_.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    dims_.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(dims.ptr(), i)));
  }
  if (PyErr_Occurred() != nullptr) nb::raise_python_error();
  tensor_.data = reinterpret_cast<void*>(pointer);
  tensor_.device = {static_cast<DLDeviceType>(device_type), device_index};
  tensor_.ndim = static_cast<std::int32_t>(count);
  tensor_.dtype = dtype_of(dtype);
  tensor_.shape = dims_.data();
}

Tensor::~Tensor() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
}

std::shared_ptr<const Tensor> Tensor::exported_by(nb::handle object, bool is_output) {
  const std::shared_ptr<Tensor> tensor(new Tensor);
  if (tensor->take_buffer(object, is_output) || tensor->take_dlpack(object) ||
      tensor->take_bfloat16(object, is_output)) {
    return tensor;
  }
  raise(DABKE_ERROR_INVALID_ARGUMENT, "a " + name_of_type(object) +
                                          " is no array: it has neither a buffer nor __dlpack__ that can be "
                                          "used here; pass a NumPy array, or anything that speaks DLPack");
}

bool Tensor::take_buffer(nb::handle object, bool is_output) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  if (PyObject_GetBuffer(object.ptr(), &buffer_, is_output ? PyBUF_FULL : PyBUF_FULL_RO) != 0) {
    buffer_.obj = nullptr;
    PyErr_Clear();
    if (is_output && PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_FULL_RO) == 0) {
      raise(DABKE_ERROR_INVALID_ARGUMENT,
            "the output is a read-only " + name_of_type(object) + "; pass one that may be written");
    }
    buffer_.obj = nullptr;
    PyErr_Clear();
    return false;
  }
  const auto dtype = dtype_of_format(buffer_.format, buffer_.itemsize);
  if (!dtype) {
    raise(DABKE_ERROR_UNSUPPORTED, std::string("dtype with the buffer format '") + buffer_.format +
                                       "' is not supported; bool, (u)int8 to 64, float16, bfloat16, float32 "
                                       "and float64 in this machine's byte order are");
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  tensor_.data = buffer_.buf;
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = buffer_.ndim;
  tensor_.dtype = *dtype;
  tensor_.shape = reinterpret_cast<std::int64_t*>(buffer_.shape);
  if (PyBuffer_IsContiguous(&buffer_, 'C') == 0) set_strides_of_buffer();
  return true;
}

/// Handed on, so that the runtime's own words refuse them; a stride that is no multiple of an element's size,
/// which DLPack cannot say, rounds to one that is refused as well.
void Tensor::set_strides_of_buffer() {
  for (int i = 0; i < buffer_.ndim; ++i) strides_.push_back(buffer_.strides[i] / buffer_.itemsize);
  tensor_.strides = strides_.data();
}

bool Tensor::take_dlpack(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return false;
  // PyTorch exports the memory of such a tensor without a word of its sign.
  const nb::object is_negated = nb::getattr(object, "is_neg", nb::none());
  if (!is_negated.is_none() && nb::cast<bool>(is_negated())) {
    raise(DABKE_ERROR_INVALID_ARGUMENT,
          "the tensor stands for the negative of what is in its memory; pass tensor.resolve_neg()");
  }
  const nb::object capsule = nb::steal(PyObject_CallMethod(object.ptr(), "__dlpack__", nullptr));
  if (!capsule.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_BufferError) == 0) nb::raise_python_error();
    PyErr_Clear();
    return false;
  }
  managed_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  if (managed_ == nullptr) nb::raise_python_error();
  PyCapsule_SetName(capsule.ptr(), kUsedCapsule);
  tensor_ = managed_->dl_tensor;
  return true;
}

/// NumPy exports ml_dtypes.bfloat16 by neither protocol, but its bits by both.
bool Tensor::take_bfloat16(nb::handle object, bool is_output) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const nb::object name = nb::getattr(dtype, "name", nb::none());
  if (!nb::isinstance<nb::str>(name) || nb::cast<std::string>(name) != "bfloat16" ||
      !nb::hasattr(object, "view")) {
    return false;
  }
  if (!take_buffer(object.attr("view")("uint16"), is_output)) return false;
  tensor_.dtype = {kDLBfloat, 16, 1};
  return true;
}

std::shared_ptr<const Tensor> tensor_of(nb::handle argument, bool is_output) {
  TensorObject* described = nullptr;
  if (nb::try_cast(argument, described, false) && described != nullptr) return described->tensor;
  return Tensor::exported_by(argument, is_output);
}

namespace {

nb::tuple shape_of(const TensorObject& self) {
  const DLTensor& tensor = self.tensor->dl();
  nb::list dims;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) dims.append(tensor.shape[i]);
  return nb::tuple(dims);
}

std::string dtype_name(const TensorObject& self) {
  const DtypeRow* const row = row_of(self.tensor->dl().dtype);
  return row != nullptr ? std::string(row->name) : "unsupported";
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::dict numbers;
  for (const DtypeRow& row : kDtypes) numbers[std::string(row.name).c_str()] = number_of(row.dtype);
  module.attr("dtypes") = numbers;
  nb::class_<TensorObject>(module, "Tensor",
                           "Memory that the caller describes; `owner` is kept while an operation uses it.")
      .def(
          "__init__",
          [](TensorObject* self, std::uintptr_t pointer, nb::handle shape, int dtype, int device_type,
             int device_index, nb::object owner) {
            new (self) TensorObject{std::make_shared<const Tensor>(pointer, shape, dtype, device_type,
                                                                   device_index, std::move(owner))};
          },
          nb::arg("pointer"), nb::arg("shape"), nb::arg("dtype"), nb::arg("device_type") = int{kDLCPU},
          nb::arg("device_index") = 0, nb::arg("owner") = nb::none())
      .def_static(
          "of",
          [](nb::handle object, bool is_output) {
            return TensorObject{Tensor::exported_by(object, is_output)};
          },
          nb::arg("object").none(), nb::arg("is_output") = false)
      .def_prop_ro("shape", &shape_of)
      .def_prop_ro("dtype", &dtype_name)
      .def_prop_ro("pointer",
                   [](const TensorObject& self) {
                     const DLTensor& tensor = self.tensor->dl();
                     return reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
                   })
      .def_prop_ro("device_type",
                   [](const TensorObject& self) { return int{self.tensor->dl().device.device_type}; });
}

}  // namespace dabke::python

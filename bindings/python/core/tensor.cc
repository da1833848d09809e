#include "bindings/python/core/tensor.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <optional>

#include "bindings/python/core/dtypes.h"

namespace dabke::python {
namespace {

std::string name_of_type(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

/// " of dtype complex64", or "" for an object without a dtype.
std::string dtype_text(nb::handle object) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  return dtype.is_none() ? "" : std::string(" of dtype ") + nb::str(dtype).c_str();
}

/// True for NumPy's masked arrays. They also export the elements under the mask.
bool is_masked(nb::handle object) {
  return name_of_type(object) != "numpy.ndarray" && nb::hasattr(object, "mask") &&
         nb::hasattr(object, "filled");
}

/// Returns the text of the current Python error, and clears the error.
std::string take_error() {
  const nb::python_error error;
  return nb::str(error.value()).c_str();
}

struct ElementForm {
  DLDataType dtype;
  bool is_swapped;  // not in this machine's byte order
};

/// The elements that the buffer protocol's `format` describes; nothing if DLPack cannot express them.
std::optional<ElementForm> form_of(const char* format, Py_ssize_t item_bytes) {
  if (format == nullptr) return ElementForm{{kDLUInt, 8, 1}, false};
  constexpr bool kIsLittle = std::endian::native == std::endian::little;
  bool is_swapped = false;
  if (std::strchr("@=<>!", *format) != nullptr && *format != '\0') {
    const bool is_little = *format == '<', is_big = *format == '>' || *format == '!';
    is_swapped = item_bytes > 1 && (kIsLittle ? is_big : is_little);
    ++format;
  }
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  const auto bits = static_cast<std::uint8_t>(item_bytes * 8);
  const auto form = [&](DLDataTypeCode code) {
    return ElementForm{{static_cast<std::uint8_t>(code), bits, 1}, is_swapped};
  };
  if (*format == '?') return form(kDLBool);
  if (std::strchr("bhilqn", *format) != nullptr) return form(kDLInt);
  if (std::strchr("cBHILQN", *format) != nullptr) return form(kDLUInt);
  if (std::strchr("efd", *format) != nullptr) return form(kDLFloat);
  return std::nullopt;
}

/// A tensor of the host as the buffer protocol would describe it; nothing for a tensor that C refuses anyway.
/// `strides` gets the strides in bytes.
std::optional<Py_buffer> view_of(const DLTensor& tensor, std::vector<Py_ssize_t>& strides) {
  const bool is_on_host = tensor.device.device_type == kDLCPU || tensor.device.device_type == kDLCUDAHost;
  if (!is_on_host || tensor.data == nullptr || row_of(tensor.dtype) == nullptr || tensor.ndim < 0 ||
      tensor.ndim > DABKE_MOST_DIMENSIONS || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    return std::nullopt;
  }
  Py_buffer view{};
  view.buf = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  view.itemsize = view.len = tensor.dtype.bits / 8;
  view.ndim = tensor.ndim;
  view.shape = reinterpret_cast<Py_ssize_t*>(tensor.shape);
  strides.resize(static_cast<std::size_t>(tensor.ndim));
  for (std::size_t i = strides.size(); i-- > 0;) {
    const Py_ssize_t compact = view.len;
    if (tensor.shape[i] < 0 || __builtin_mul_overflow(view.len, tensor.shape[i], &view.len))
      return std::nullopt;
    strides[i] = tensor.strides == nullptr ? compact : tensor.strides[i] * view.itemsize;
  }
  view.strides = strides.data();
  return view;
}

void swap_bytes(std::byte* data, std::size_t bytes, std::size_t item_bytes) {
  for (std::byte* const end = data + bytes; data != end; data += item_bytes)
    std::reverse(data, data + item_bytes);
}

/// The object's capsule of DLPack 1.0, which marks read-only memory, or else of the version before it. Not
/// valid if there is a Python error.
nb::object capsule_of(nb::handle object) {
  const nb::object function = nb::getattr(object, "__dlpack__");
  const nb::object arguments = nb::steal(PyTuple_New(0)),
                   version = nb::steal(Py_BuildValue("{s(ii)}", "max_version", 1, 0));
  if (!arguments.is_valid() || !version.is_valid()) return {};
  nb::object capsule = nb::steal(PyObject_Call(function.ptr(), arguments.ptr(), version.ptr()));
  if (capsule.is_valid() || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return capsule;
  PyErr_Clear();
  return nb::steal(PyObject_CallNoArgs(function.ptr()));
}

std::string strides_text(const Py_buffer& view) {
  std::string text;
  for (int i = 0; i < view.ndim; ++i) text += (i == 0 ? "" : ", ") + std::to_string(view.strides[i]);
  return text;
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
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
}

std::shared_ptr<const Tensor> Tensor::exported_by(nb::handle object, bool is_output) {
  if (is_masked(object)) {
    throw ArgumentError("a " + name_of_type(object) +
                        " is masked, and the ranks' masks may differ; pass its filled(value), or its data to "
                        "use all elements");
  }
  const std::shared_ptr<Tensor> tensor(new Tensor);
  std::string why_not;
  if (tensor->take_buffer(object, is_output, why_not) || tensor->take_dlpack(object, is_output, why_not) ||
      tensor->take_bfloat16(object, is_output, why_not)) {
    return tensor;
  }
  if (!why_not.empty()) {
    throw ArgumentError("a " + name_of_type(object) + dtype_text(object) +
                        " cannot be read here: " + why_not);
  }
  throw ArgumentError("expected an array, got " + name_of_type(object) +
                      ", which has neither a usable buffer nor a usable __dlpack__; pass a NumPy array, "
                      "or an object that supports DLPack");
}

bool Tensor::take_buffer(nb::handle object, bool is_output, std::string& why_not) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  if (PyObject_GetBuffer(object.ptr(), &buffer_, is_output ? PyBUF_FULL : PyBUF_FULL_RO) != 0) {
    buffer_.obj = nullptr;
    why_not = take_error();
    if (is_output && PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_FULL_RO) == 0) {
      throw ArgumentError("the output is a read-only " + name_of_type(object) + "; pass a writable one");
    }
    buffer_.obj = nullptr;
    PyErr_Clear();
    return false;
  }
  const auto form = form_of(buffer_.format, buffer_.itemsize);
  if (!form) {
    throw ArgumentError(
        DABKE_ERROR_UNSUPPORTED,
        "a " + name_of_type(object) + dtype_text(object) + ", in the buffer format '" + buffer_.format +
            "', is not supported; bool, (u)int8 to 64, float16, bfloat16, float32 and float64 are");
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  tensor_.data = buffer_.buf;
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = buffer_.ndim;
  tensor_.dtype = form->dtype;
  tensor_.shape = reinterpret_cast<std::int64_t*>(buffer_.shape);
  make_plain(buffer_, form->is_swapped, is_output);
  return true;
}

/// Makes this tensor plain: compact, aligned and in this machine's byte order. `view` describes its memory.
/// Copies an input if needed. Refuses such an output, because the results would go to a copy.
void Tensor::make_plain(const Py_buffer& view, bool is_swapped, bool is_output) {
  const bool is_compact = PyBuffer_IsContiguous(&view, 'C') != 0;
  const bool is_aligned =
      reinterpret_cast<std::uintptr_t>(view.buf) % static_cast<std::size_t>(view.itemsize) == 0;
  if (is_compact && is_aligned && !is_swapped) {
    tensor_.strides = nullptr;
    return;
  }
  if (!is_output || view.len == 0) return copy(view, is_swapped);
  if (!is_compact) {
    const bool has_strides = view.suboffsets == nullptr && view.strides != nullptr;
    throw ArgumentError(
        "the output's elements of " + std::to_string(view.itemsize) + " bytes are not contiguous" +
        (has_strides ? ", with strides of [" + strides_text(view) + "] bytes" : "") +
        ", but an output must be compact and row-major; pass a contiguous one, and copy the result");
  }
  if (is_swapped) {
    throw ArgumentError(
        "the output is not in this machine's byte order; pass one that is, and copy the result");
  }
  throw ArgumentError("the output begins at an address that is not a multiple of its elements' " +
                      std::to_string(view.itemsize) +
                      " bytes; pass one that is aligned, and copy the result");
}

void Tensor::copy(const Py_buffer& from, bool is_swapped) {
  const auto bytes = static_cast<std::size_t>(from.len);
  copy_.reset(new (std::nothrow) std::byte[bytes]);
  if (copy_ == nullptr) {
    throw ArgumentError(
        DABKE_ERROR_OUT_OF_MEMORY,
        "cannot allocate the copy of " + std::to_string(bytes) +
            " bytes; an input needs a copy unless it is compact, aligned and in this machine's byte order");
  }
  if (PyBuffer_ToContiguous(copy_.get(), &from, from.len, 'C') != 0) nb::raise_python_error();
  if (is_swapped) swap_bytes(copy_.get(), bytes, static_cast<std::size_t>(from.itemsize));
  tensor_.data = copy_.get();
  tensor_.byte_offset = 0;
  tensor_.strides = nullptr;
}

bool Tensor::take_dlpack(nb::handle object, bool is_output, std::string& why_not) {
  if (!nb::hasattr(object, "__dlpack__")) return false;
  // PyTorch exports the memory of a negated view without its sign.
  const nb::object is_negated = nb::getattr(object, "is_neg", nb::none());
  if (!is_negated.is_none() && nb::cast<bool>(is_negated())) {
    throw ArgumentError("the tensor has PyTorch's negative bit set; pass tensor.resolve_neg()");
  }
  const nb::object capsule = capsule_of(object);
  if (!capsule.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_BufferError) == 0) nb::raise_python_error();
    if (why_not.empty()) why_not = take_error();
    PyErr_Clear();
    return false;
  }
  bool is_read_only = false;
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedCapsule) != 0) {
    versioned_ =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedCapsule));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    if (versioned_->version.major != DLPACK_MAJOR_VERSION) {
      throw ArgumentError("a " + name_of_type(object) + " uses version " +
                          std::to_string(versioned_->version.major) +
                          " of DLPack; only version 1 and older ones are supported");
    }
    is_read_only = (versioned_->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    tensor_ = versioned_->dl_tensor;
  } else {
    managed_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
    if (managed_ == nullptr) nb::raise_python_error();
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    tensor_ = managed_->dl_tensor;
  }
  if (is_output && is_read_only) {
    throw ArgumentError("the output is a read-only " + name_of_type(object) + "; pass a writable one");
  }
  std::vector<Py_ssize_t> strides;
  if (const auto view = view_of(tensor_, strides)) make_plain(*view, false, is_output);
  return true;
}

/// NumPy exports ml_dtypes.bfloat16 by neither protocol, but a view of its bits by both.
bool Tensor::take_bfloat16(nb::handle object, bool is_output, std::string& why_not) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const nb::object name = nb::getattr(dtype, "name", nb::none());
  if (!nb::isinstance<nb::str>(name) || nb::cast<std::string>(name) != "bfloat16" ||
      !nb::hasattr(object, "view")) {
    return false;
  }
  const nb::object byte_order = nb::getattr(dtype, "byteorder", nb::str("="));
  if (!take_buffer(object.attr("view")(byte_order + nb::str("u2")), is_output, why_not)) return false;
  tensor_.dtype = {kDLBfloat, 16, 1};
  return true;
}

std::shared_ptr<const Tensor> tensor_of(nb::handle argument, bool is_output) {
  TensorObject* described = nullptr;
  if (nb::try_cast(argument, described, false) && described != nullptr) return described->tensor;
  return Tensor::exported_by(argument, is_output);
}

namespace {

nb::typed<nb::tuple, int, nb::ellipsis> shape_of(const TensorObject& self) {
  const DLTensor& tensor = self.tensor->dl();
  nb::list dims;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) dims.append(tensor.shape[i]);
  return nb::typed<nb::tuple, int, nb::ellipsis>(nb::tuple(dims));
}

std::string dtype_name(const TensorObject& self) {
  const DtypeRow* const row = row_of(self.tensor->dl().dtype);
  return row != nullptr ? std::string(row->name) : "unsupported";
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::class_<TensorObject>(
      module, "Tensor", "Memory that the caller describes. Keeps `owner` alive while an operation uses it.")
      .def(
          "__init__",
          [](TensorObject* self, std::uintptr_t pointer, nb::handle shape, int dtype, int device_type,
             int device_index, nb::object owner) {
            new (self) TensorObject{std::make_shared<const Tensor>(pointer, shape, dtype, device_type,
                                                                   device_index, std::move(owner))};
          },
          nb::arg("pointer"), nb::arg("shape"), nb::arg("dtype"), nb::arg("device_type") = int{kDLCPU},
          nb::arg("device_index") = 0, nb::arg("owner") = nb::none(),
          "Row-major memory at an address. `dtype` is a number of dtypes(), `device_type` CPU or CUDA.")
      .def_static(
          "of",
          [](nb::handle object, bool is_output) {
            return TensorObject{Tensor::exported_by(object, is_output)};
          },
          nb::arg("object").none(), nb::arg("is_output") = false,
          "The memory that an array exports. Copies an input that is not plain memory of the host.")
      .def_prop_ro("shape", &shape_of, "The dimensions, outermost first.")
      .def_prop_ro("dtype", &dtype_name, "The NumPy name, or \"unsupported\".")
      .def_prop_ro(
          "pointer",
          [](const TensorObject& self) {
            const DLTensor& tensor = self.tensor->dl();
            return reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
          },
          "The address of the first element.")
      .def_prop_ro(
          "device_type", [](const TensorObject& self) { return int{self.tensor->dl().device.device_type}; },
          "DLPack's number, such as CPU.");
}

}  // namespace dabke::python

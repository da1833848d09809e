// What an operation reads or writes: memory that a Python object owns, and what it holds.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bindings/python/core/refusal.h"

namespace dabke::python {

/// The names by which DLPack's capsules are told from those that somebody has taken already.
inline constexpr const char* kCapsule = "dltensor";
inline constexpr const char* kVersionedCapsule = "dltensor_versioned";

/// One input or output, with what keeps its memory alive. Made and destroyed with the interpreter's lock held.
class Tensor {
 public:
  /// Memory that the caller describes: the form for frameworks, whose tensors need no protocol. `owner` is kept.
  Tensor(std::uintptr_t pointer, nb::handle shape, int dtype, int device_type, int device_index,
         nb::object owner);
  ~Tensor();
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  /// What `object` exports by the buffer protocol, or else by DLPack. An input that is not compact, aligned and in this
  /// machine's byte order is copied, if it is on the host. An ArgumentError where it exports nothing that can be used, or
  /// where it is to be written and may not be.
  static std::shared_ptr<const Tensor> exported_by(nb::handle object, bool is_output);

  const DLTensor& dl() const { return tensor_; }
  /// Its owner has exported device memory, whose data is there behind what is on the legacy default stream now.
  bool is_behind_legacy_stream() const {
    return is_exported_by_dlpack() &&
           (tensor_.device.device_type == kDLCUDA || tensor_.device.device_type == kDLCUDAManaged);
  }

 private:
  Tensor() = default;
  bool take_buffer(nb::handle object, bool is_output, std::string& why_not);
  bool take_dlpack(nb::handle object, bool is_output, std::string& why_not);
  bool take_bfloat16(nb::handle object, bool is_output, std::string& why_not);
  void make_plain(const Py_buffer& view, bool is_swapped, bool is_output);
  void copy(const Py_buffer& from, bool is_swapped);
  bool is_exported_by_dlpack() const { return managed_ != nullptr || versioned_ != nullptr; }

  DLTensor tensor_{};
  std::vector<std::int64_t> dims_;  // of a described tensor
  nb::object owner_;
  Py_buffer buffer_{};
  DLManagedTensor* managed_ = nullptr;
  DLManagedTensorVersioned* versioned_ = nullptr;
  std::unique_ptr<std::byte[]> copy_;  // of an input that is not plain memory
};

/// A Tensor as Python sees it.
struct TensorObject {
  std::shared_ptr<const Tensor> tensor;
};

/// The tensor that a Python argument stands for: a TensorObject's own, or what the object exports. Throws as exported_by().
std::shared_ptr<const Tensor> tensor_of(nb::handle argument, bool is_output);

void bind_tensor(nb::module_& module);

}  // namespace dabke::python

// The memory that an operation reads or writes: a Python object owns it, and a DLTensor describes it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bindings/python/core/refusal.h"

namespace dabke::python {

/// The names of DLPack's capsules. A consumer that takes the tensor renames the capsule.
inline constexpr const char* kCapsule = "dltensor";
inline constexpr const char* kVersionedCapsule = "dltensor_versioned";

/// One input or output, and the object that keeps its memory alive. Made and destroyed with the interpreter's
/// lock held.
class Tensor {
 public:
  /// Memory that the caller describes: the form for frameworks, which need no exchange protocol. Keeps
  /// `owner` alive.
  Tensor(std::uintptr_t pointer, nb::handle shape, int dtype, int device_type, int device_index,
         nb::object owner);
  ~Tensor();
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  /// The memory that `object` exports by the buffer protocol, or else by DLPack. An input on the host is
  /// copied unless it is compact, aligned and in this machine's byte order.
  ///   errors  ArgumentError where `object` exports nothing that can be used, and for an output that is
  ///           read-only
  static std::shared_ptr<const Tensor> exported_by(nb::handle object, bool is_output);

  const DLTensor& dl() const { return tensor_; }
  /// True for device memory that was exported by DLPack. Its data is ready after the work that is now on the
  /// legacy default stream.
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
  std::vector<std::int64_t> dims_;  // the shape of a described tensor
  nb::object owner_;
  Py_buffer buffer_{};
  DLManagedTensor* managed_ = nullptr;
  DLManagedTensorVersioned* versioned_ = nullptr;
  std::unique_ptr<std::byte[]> copy_;  // the copy of an input that is not plain memory
};

/// A Tensor as Python sees it.
struct TensorObject {
  std::shared_ptr<const Tensor> tensor;
};

/// The tensor of a Python argument: that of a TensorObject, or the memory that the object exports.
///   errors  as exported_by()
std::shared_ptr<const Tensor> tensor_of(nb::handle argument, bool is_output);

void bind_tensor(nb::module_& module);

}  // namespace dabke::python

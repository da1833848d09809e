// A collective as a program of XLA calls it: its attributes and buffers, as names, options and tensors of the
// C API.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bindings/python/jax/xla_ffi.h"
#include "dabke/dabke.h"

namespace dabke::python::jax {

/// One call. Behind its tensors come the links that keep the calls of a function in their order; nothing is
/// read of them, nor written. Tensors point into XLA's buffers, names into `text`, so a call is neither
/// copied nor moved.
class Call {
 public:
  /// Reads the call that the frame describes.
  ///   errors  the text of what is wrong with it; empty when nothing is
  std::string read(const xla::CallFrame& frame);

  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  std::size_t size() const { return names_.size(); }
  const char* const* names() const { return names_.data(); }
  const DLTensor* const* inputs() const { return input_pointers_.data(); }
  const DLTensor* const* outputs() const { return output_pointers_.data(); }
  dabke_options& options() { return options_; }

  /// True if its program has no other call of Dabke's.
  bool is_alone() const { return is_alone_; }

  /// The bytes of all inputs.
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::string read_names(std::string_view joined, std::size_t count);
  std::string read_tensors(const xla::Buffers& buffers, std::vector<DLTensor>& tensors,
                           std::vector<const DLTensor*>& pointers);

  dabke_options options_ = DABKE_OPTIONS_INIT;
  std::string text_;  // the names, each with its NUL
  std::vector<const char*> names_;
  std::vector<DLTensor> inputs_, outputs_;
  std::vector<const DLTensor*> input_pointers_, output_pointers_;
  std::size_t size_bytes_ = 0;
  bool is_alone_ = false;
};

}  // namespace dabke::python::jax

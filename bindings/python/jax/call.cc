#include "bindings/python/jax/call.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace dabke::python::jax {
namespace {

std::optional<DLDataType> dlpack_of(xla::DataType dtype) {
  using xla::DataType;
  const auto make = [](DLDataTypeCode code, int bits) {
    return DLDataType{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  };
  switch (dtype) {
    case DataType::boolean: return make(kDLBool, 8);
    case DataType::int8: return make(kDLInt, 8);
    case DataType::int16: return make(kDLInt, 16);
    case DataType::int32: return make(kDLInt, 32);
    case DataType::int64: return make(kDLInt, 64);
    case DataType::uint8: return make(kDLUInt, 8);
    case DataType::uint16: return make(kDLUInt, 16);
    case DataType::uint32: return make(kDLUInt, 32);
    case DataType::uint64: return make(kDLUInt, 64);
    case DataType::float16: return make(kDLFloat, 16);
    case DataType::float32: return make(kDLFloat, 32);
    case DataType::float64: return make(kDLFloat, 64);
    case DataType::bfloat16: return make(kDLBfloat, 16);
  }
  return std::nullopt;
}

/// The attributes of a call, by their names.
class Reader {
 public:
  explicit Reader(const xla::Attributes& attributes) : attributes_(attributes) {}

  std::optional<std::string_view> string(std::string_view name) const {
    const void* const value = find(name, xla::AttributeType::string);
    if (!value) return std::nullopt;
    return static_cast<const xla::ByteSpan*>(value)->view();
  }

  template <class T>
  bool scalar(std::string_view name, xla::DataType dtype, T& result) const {
    const auto* const value = static_cast<const xla::Scalar*>(find(name, xla::AttributeType::scalar));
    if (!value || value->dtype != dtype) return false;
    std::memcpy(&result, value->value, sizeof(T));
    return true;
  }

 private:
  const void* find(std::string_view name, xla::AttributeType type) const {
    for (std::int64_t i = 0; i < attributes_.size; ++i) {
      if (attributes_.names[i]->view() == name)
        return attributes_.types[i] == type ? attributes_.values[i] : nullptr;
    }
    return nullptr;
  }

  const xla::Attributes& attributes_;
};

std::size_t bytes_of(const DLTensor& tensor) {
  std::size_t bytes = tensor.dtype.bits / 8;
  for (int i = 0; i < tensor.ndim; ++i) bytes *= static_cast<std::size_t>(tensor.shape[i]);
  return bytes;
}

}  // namespace

std::string Call::read_names(std::string_view joined, std::size_t count) {
  text_.assign(joined);
  names_.clear();
  for (std::size_t begin = 0; begin <= text_.size();) {
    const std::size_t end = std::min(text_.find('\n', begin), text_.size());
    names_.push_back(text_.data() + begin);
    if (end < text_.size()) text_[end] = '\0';
    begin = end + 1;
  }
  if (names_.size() != count)
    return "the call has " + std::to_string(names_.size()) + " names for " + std::to_string(count) +
           " tensors";
  return {};
}

std::string Call::read_tensors(const xla::Buffers& buffers, std::vector<DLTensor>& tensors,
                               std::vector<const DLTensor*>& pointers) {
  tensors.resize(names_.size());
  pointers.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (buffers.types[i] != xla::kBufferType) return "an operand is not a buffer";
    const xla::Buffer& buffer = *buffers.buffers[i];
    const auto dtype = dlpack_of(buffer.dtype);
    if (!dtype) {
      return std::string("'") + names_[i] + "' has a dtype that Dabke lacks, number " +
             std::to_string(static_cast<int>(buffer.dtype)) + " of XLA's";
    }
    tensors[i] = DLTensor{buffer.data,
                          {kDLCPU, 0},
                          static_cast<std::int32_t>(buffer.rank),
                          *dtype,
                          buffer.dimensions,
                          nullptr,
                          0};
    pointers[i] = &tensors[i];
  }
  return {};
}

std::string Call::read(const xla::CallFrame& frame) {
  const Reader attributes(frame.attributes);
  const auto names = attributes.string("names");
  std::int32_t tensors = 0;
  if (!names || !attributes.scalar("tensors", xla::DataType::int32, tensors) || tensors < 0 ||
      frame.arguments.size < tensors || frame.results.size < tensors) {
    return "the call is not one of Dabke's";
  }
  const auto count = static_cast<std::size_t>(tensors);
  if (std::string why = read_names(*names, count); !why.empty()) return why;

  std::int32_t set = 0, op = 0, root = 0, compression = 0, alone = 0;
  if (!attributes.scalar("process_set", xla::DataType::int32, set) ||
      !attributes.scalar("op", xla::DataType::int32, op) ||
      !attributes.scalar("root_rank", xla::DataType::int32, root) ||
      !attributes.scalar("alone", xla::DataType::int32, alone) ||
      !attributes.scalar("compression", xla::DataType::int32, compression) ||
      !attributes.scalar("prescale_factor", xla::DataType::float64, options_.prescale_factor) ||
      !attributes.scalar("postscale_factor", xla::DataType::float64, options_.postscale_factor)) {
    return "the call lacks an option; the program was lowered by another version of Dabke";
  }
  is_alone_ = alone != 0;
  options_.process_set = set;
  options_.op = static_cast<dabke_reduce_op>(op);
  options_.root_rank = root;
  options_.compression = static_cast<dabke_compression>(compression);

  std::string why = read_tensors(frame.arguments, inputs_, input_pointers_);
  if (why.empty()) why = read_tensors(frame.results, outputs_, output_pointers_);
  size_bytes_ = 0;
  for (const DLTensor& input : inputs_) size_bytes_ += bytes_of(input);
  return why;
}

}  // namespace dabke::python::jax

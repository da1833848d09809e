#include "runtime/negotiation/wire.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

namespace dabke {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is the native one here");

// One list of fields serves both directions: `archive(field)` writes it or reads it.

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  static constexpr bool kReading = false;

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(const T& value) { append(&value, sizeof value); }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  void count(std::size_t n) { (*this)(static_cast<std::uint32_t>(n)); }

 private:
  void append(const void* from, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), first, first + bytes);
  }
  std::vector<std::byte>& out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  static constexpr bool kReading = true;

  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T> void operator()(
                                                                       T& value) {
    if (const std::byte* from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
  }
  void operator()(bool& value) {
    std::uint8_t byte = 0;
    (*this)(byte);
    if (byte > 1) fail("a flag that is neither 0 nor 1");
    value = byte == 1;
  }
  void operator()(std::string& text) {
    const std::size_t n = count(1);
    if (const std::byte* from = take(n)) text.assign(reinterpret_cast<const char*>(from), n);
  }
  /// A list's length; each element takes at least `least_bytes`, so a length that cannot be true is refused
  /// before anything is allocated for it.
  std::size_t count(std::size_t least_bytes) {
    std::uint32_t n = 0;
    (*this)(n);
    if (n > in_.size() / least_bytes) {
      fail("a list longer than the message");
      return 0;
    }
    return n;
  }
  void fail(std::string_view why) {
    if (error_.empty()) error_ = why;
    in_ = {};
  }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  std::size_t left() const { return in_.size(); }

 private:
  const std::byte* take(std::size_t bytes) {
    if (bytes > in_.size()) {
      fail("the message ends too early");
      return nullptr;
    }
    const std::byte* from = in_.data();
    in_ = in_.subspan(bytes);
    return from;
  }
  std::span<const std::byte> in_;
  std::string error_;
};

template <class Archive, class T, class Each>
void list(Archive& archive, T& items, std::size_t least_bytes, Each each) {
  if constexpr (Archive::kReading) {
    items.resize(archive.count(least_bytes));
  } else {
    archive.count(items.size());
  }
  for (auto& item : items) {
    if constexpr (Archive::kReading) {
      if (archive.failed()) return;
    }
    each(item);
  }
}

template <class Archive, class S>
void shape(Archive& archive, S& value) {
  std::vector<std::int64_t> dims(value.dims().begin(), value.dims().end());
  list(archive, dims, sizeof(std::int64_t), [&](auto& dim) { archive(dim); });
  if constexpr (Archive::kReading) {
    // The product must stay a sane number of elements, or size computations would overflow.
    std::int64_t elements = 1;
    for (const std::int64_t dim : dims) {
      if (dim < 0 || __builtin_mul_overflow(elements, dim == 0 ? 1 : dim, &elements) ||
          elements > (1LL << 56)) {
        return archive.fail("a shape with an impossible dimension");
      }
    }
    value = Shape(dims);
  }
}

template <class Archive, class E>
void checked_enum(Archive& archive, E& value, std::uint64_t most, std::string_view what) {
  archive(value);
  if constexpr (Archive::kReading) {
    if (static_cast<std::uint64_t>(value) > most) archive.fail(fmt::format("an unknown {}", what));
  }
}

template <class Archive, class R>
void fields(Archive& archive, R& request) requires std::is_same_v<std::remove_const_t<R>, Request> {
  archive(request.name);
  archive(request.process_set);
  checked_enum(archive, request.kind, kCollectiveCount - 1, "collective");
  checked_enum(archive, request.op, static_cast<std::uint64_t>(ReduceOp::product), "reduce op");
  checked_enum(archive, request.device, static_cast<std::uint64_t>(DeviceType::cuda), "device");
  archive(request.root);
  archive(request.priority);
  archive(request.compression);
  archive(request.prescale);
  archive(request.postscale);
  list(archive, request.tensors, 9, [&](auto& tensor) {
    archive(tensor.name);
    checked_enum(archive, tensor.dtype, kDTypes.size() - 1, "dtype");
    shape(archive, tensor.shape);
  });
  list(archive, request.ranks, sizeof(Rank), [&](auto& rank) { archive(rank); });
}

template <class Archive, class M>
void body(Archive& archive, M& message) {
  using Plain = std::remove_const_t<M>;
  if constexpr (std::is_same_v<Plain, ReadyMessage>) {
    list(archive, message.requests, 40, [&](auto& request) { fields(archive, request); });
  } else if constexpr (std::is_same_v<Plain, FailMessage>) {
    archive(message.code);
    archive(message.text);
  } else if constexpr (std::is_same_v<Plain, OrdersMessage>) {
    archive(message.fusion_threshold);
    archive(message.group_fusion);
    list(archive, message.orders, 40, [&](auto& order) {
      archive(order.number);
      checked_enum(archive, order.kind, static_cast<std::uint64_t>(Order::Kind::left), "order");
      fields(archive, order.request);
      archive(order.contributors);
      archive(order.rank);
      archive(order.new_set);
      archive(order.error);
      archive(order.text);
    });
  }
}

template <std::size_t I = 0>
Result<Message> decode_as(std::size_t kind, Reader& reader) {
  if constexpr (I == std::variant_size_v<Message>) {
    return Status(Code::transport, fmt::format("negotiation message of unknown kind {}", kind));
  } else {
    if (kind != I) return decode_as<I + 1>(kind, reader);
    std::variant_alternative_t<I, Message> message;
    body(reader, message);
    if (reader.failed())
      return Status(Code::transport, fmt::format("negotiation message refused: {}", reader.error()));
    if (reader.left() != 0) {
      return Status(Code::transport,
                    fmt::format("negotiation message refused: {} bytes too many", reader.left()));
    }
    return Message(std::move(message));
  }
}

}  // namespace

void encode(const Message& message, std::vector<std::byte>& out) {
  Writer writer(out);
  writer(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& held) { body(writer, held); }, message);
}

Result<Message> decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::uint8_t kind = 0xff;
  reader(kind);
  if (reader.failed()) return Status(Code::transport, "empty negotiation message");
  return decode_as(kind, reader);
}

}  // namespace dabke

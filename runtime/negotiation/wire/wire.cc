#include "runtime/negotiation/wire/wire.h"

#include <fmt/format.h>

#include "runtime/negotiation/wire/wire_down.h"
#include "runtime/negotiation/wire/wire_stalls.h"
#include "runtime/negotiation/wire/wire_up.h"

namespace dabke::wire {
namespace {

template <std::size_t I = 0>
Result<Message> decode_as(std::size_t kind, wire::Reader& reader) {
  if constexpr (I == std::variant_size_v<Message>) {
    return Status(Code::transport, fmt::format("negotiation message of unknown kind {}", kind));
  } else {
    if (kind != I) return decode_as<I + 1>(kind, reader);
    std::variant_alternative_t<I, Message> message;
    wire::fields(reader, message);
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
  wire::Writer writer(out);
  writer(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& held) { wire::fields(writer, held); }, message);
}

Result<Message> decode(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  std::uint8_t kind = 0xff;
  reader(kind);
  if (reader.failed()) return Status(Code::transport, "empty negotiation message");
  return decode_as(kind, reader);
}

}  // namespace dabke::wire

// Negotiation messages as a neighbour may send them. A message that was read can
// be written, and reads the same again.
#include <vector>

#include "runtime/negotiation/wire/wire.h"
#include "tests/fuzz/check.h"

namespace {

std::vector<std::byte> encoded(const dabke::wire::Message& message) {
  std::vector<std::byte> bytes;
  dabke::wire::encode(message, bytes);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = dabke::wire::decode(std::as_bytes(std::span(data, size)));
  if (!message.is_ok()) return 0;
  // A bitmap sorts slots, so only the second round changes nothing.
  const auto again = dabke::wire::decode(encoded(*message));
  FUZZ_CHECK(again.is_ok());
  const std::vector<std::byte> second = encoded(*again);
  const auto third = dabke::wire::decode(second);
  FUZZ_CHECK(third.is_ok());
  FUZZ_CHECK(encoded(*third) == second);
  return 0;
}

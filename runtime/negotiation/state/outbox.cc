#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

void Outbox::send(Rank peer, const wire::Message& message) {
  std::vector<std::byte> bytes;
  wire::encode(message, bytes);
  send_bytes(peer, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
}

void Outbox::send_bytes(Rank peer, std::shared_ptr<const std::vector<std::byte>> bytes) {
  if (gone_[static_cast<std::size_t>(peer)]) return;
  actions_.emplace_back(SendAction{peer, std::move(bytes)});
}

}  // namespace dabke::negotiation

// The handshake of two links, either with a stranger who sends anything, or with a peer whose bytes are
// changed on the way. Neither side accepts a stranger, or a peer's message in which one bit has changed.
#include "runtime/links/handshake.h"
#include "tests/fuzz/check.h"

namespace {

using dabke::Rank;
using dabke::links::Handshake;
using dabke::test::Input;

constexpr Rank kConnector = 2, kAcceptor = 1;

Handshake side(bool is_connector) {
  Handshake::Self self;
  self.job_key.fill(std::byte{7});
  self.rank = is_connector ? kConnector : kAcceptor;
  auto made = is_connector ? Handshake::connect(self, kAcceptor)
                           : Handshake::accept(self, [](Rank rank) { return rank == kConnector; });
  FUZZ_CHECK(made.is_ok());
  return made.take();
}

void meet_stranger(Input& input) {
  Handshake ours = side(input.below(2) == 1);
  const std::string_view text = input.rest();
  auto bytes = dabke::test::bytes_of(text);
  while (!ours.over() && !bytes.empty()) {
    const std::size_t wanted = ours.wanted();
    FUZZ_CHECK(wanted > 0);
    const auto part = bytes.first(std::min(wanted, bytes.size()));
    bytes = bytes.subspan(part.size());
    FUZZ_CHECK(ours.receive(part).is_ok() != ours.failed());
  }
  FUZZ_CHECK(!ours.done());
}

/// Each byte of the input changes one byte on the way; a zero leaves it. ACCEPTED and REFUSED have no proof,
/// and neither has anything that follows: an attacker who can change them can change the frames as well.
void meet_peer(Input& input) {
  Handshake connector = side(true), acceptor = side(false);
  bool is_answered = false,
       is_proving = false;  // the acceptor has sent something; then the connector has
  bool is_greeting_changed = false, is_changed_for_acceptor = false, is_changed = false;
  for (bool moved = true; moved;) {
    moved = false;
    for (const bool to_connector : {false, true}) {
      Handshake& from = to_connector ? acceptor : connector;
      Handshake& to = to_connector ? connector : acceptor;
      const std::size_t count = std::min(from.outgoing().size(), to.wanted());
      if (count == 0) continue;
      is_answered = is_answered || to_connector;
      is_proving = is_proving || (is_answered && !to_connector);
      const auto outgoing = from.outgoing().first(count);
      std::vector<std::byte> part(outgoing.begin(), outgoing.end());
      for (std::byte& byte : part) {
        const std::uint8_t change = input.byte();
        if (change == 0) continue;
        byte ^= std::byte{change};
        is_changed = true;
        is_changed_for_acceptor = is_changed_for_acceptor || !to_connector;
        is_greeting_changed = is_greeting_changed || !is_proving;
      }
      from.sent(count);
      (void)to.receive(part);
      moved = true;
    }
  }
  if (is_changed_for_acceptor) FUZZ_CHECK(!acceptor.done());
  if (is_greeting_changed) FUZZ_CHECK(!connector.done() && !acceptor.done());
  if (!is_changed) FUZZ_CHECK(connector.done() && acceptor.done());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  if (input.below(2) == 0) {
    meet_stranger(input);
  } else {
    meet_peer(input);
  }
  return 0;
}

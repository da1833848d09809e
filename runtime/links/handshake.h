// How two ranks prove themselves to each other before the first frame. Pure: bytes in, bytes out; no socket,
// no clock.
//
//   1. The connector sends HELLO: preamble, job, epoch, its rank, the rank it wants, a fresh nonce, its
//      process.
//   2. The acceptor refuses another wire version, job, epoch or rank. Otherwise it answers WELCOME: its own
//      values of the same fields, and MAC_a = HMAC-SHA256(job key, "acceptor" | HELLO | WELCOME without the
//      MAC).
//   3. The connector checks the fields and MAC_a and sends PROOF: MAC_c = the same with "connector".
//   4. The acceptor checks MAC_c and sends ACCEPTED. Frames may follow in both directions.
//
// Each MAC covers both nonces, both ranks, the epoch and the role, so an answer can be neither replayed nor
// reflected. A stranger gets only a refusal from the acceptor. Every step begins with the preamble: magic (8
// bytes), wire version (4), kind (1). The preamble and REFUSED (preamble, length of the text in two bytes,
// text) never change, so that sides of different versions can report it. Integers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/hmac.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/links/process_identity.h"

namespace dabke::links {

inline constexpr std::uint32_t kWireVersion = 10;

class Handshake {
 public:
  /// The data of this side, the same for all its handshakes.
  struct Self {
    JobId job_id{};
    JobKey job_key{};
    std::uint64_t epoch = 0;
    Rank rank = -1;
    ProcessIdentity process;
    std::uint32_t version = kWireVersion;  // tests set another
  };

  /// Fails if the system gives no random bytes.
  static Result<Handshake> connect(const Self& self, Rank wanted);
  /// `may_connect` returns true for the ranks that are expected.
  static Result<Handshake> accept(const Self& self, std::function<bool(Rank)> may_connect);

  /// The number of bytes to read next. Never more, because bytes after the handshake belong to the link. 0
  /// once it is over.
  std::size_t wanted() const { return over() ? 0 : need_ - in_.size(); }
  /// Takes at most wanted() bytes. An error ends the handshake; outgoing bytes (a refusal) may still be sent.
  Status receive(std::span<const std::byte> bytes);

  std::span<const std::byte> outgoing() const { return std::span(out_).subspan(sent_); }
  void sent(std::size_t count) { sent_ += count; }

  /// True if both sides have proved themselves. The outgoing bytes must still be sent before the first frame.
  bool done() const { return state_ == State::done; }
  bool failed() const { return state_ == State::failed; }
  bool over() const { return done() || failed(); }

  /// The rank of the other side; for the acceptor only a claim until done().
  Rank peer_rank() const { return peer_rank_; }
  const ProcessIdentity& peer_process() const { return peer_process_; }

 private:
  enum class Kind : std::uint8_t { hello = 1, welcome = 2, proof = 3, accepted = 4, refused = 5 };
  enum class State { preamble, body, refusal_length, refusal_text, done, failed };

  Handshake(const Self& self, bool connector) : self_(self), connector_(connector) {}

  Status start();
  Status step();
  Status on_preamble();
  Status on_hello();
  Status on_welcome();
  Status on_proof();
  Status check_peer() const;
  void read_peer(const std::byte* body);
  void put_preamble(Kind kind);
  void put_body(Rank to);
  Result<Digest> mac(std::string_view role) const;
  void expect(State state, std::size_t more);
  Status fail(Code code, std::string text);
  Status refuse(Code code, std::string text);

  Self self_;
  bool connector_;
  Rank peer_rank_ = -1;
  std::function<bool(Rank)> may_connect_;
  State state_ = State::preamble;
  Kind expected_ = Kind::hello;
  std::size_t need_ = 0;
  std::vector<std::byte> in_;   // the step that is being received
  std::vector<std::byte> out_;  // all bytes of this side
  std::size_t sent_ = 0;
  std::array<std::byte, 32> nonce_{};
  std::vector<std::byte> transcript_;  // HELLO, then WELCOME without its MAC

  JobId peer_job_{};
  std::uint64_t peer_epoch_ = 0;
  Rank peer_wants_ = -1;
  ProcessIdentity peer_process_;
};

}  // namespace dabke::links

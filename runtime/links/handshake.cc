#include "runtime/links/handshake.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "runtime/links/little_endian.h"

namespace dabke::links {
namespace {

constexpr std::array<char, 8> kMagic = {'D', 'A', 'B', 'K', 'E', 'L', 'N', 'K'};
constexpr std::size_t kPreamble = kMagic.size() + 4 + 1;
constexpr std::size_t kMac = std::tuple_size_v<Digest>;
constexpr std::size_t kMostRefusal = 512;

// The offsets of the fields of HELLO and WELCOME, behind the preamble.
constexpr std::size_t kJob = 0, kEpoch = 16, kFrom = 24, kTo = 28, kNonce = 32, kBoot = 64,
                      kPidNamespace = 80, kPid = 88;
constexpr std::size_t kBody = 92;

// Text of a stranger is shown without its control characters, which could change a terminal.
std::string printable(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const char c = static_cast<char>(byte);
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

}  // namespace

Result<Handshake> Handshake::connect(const Self& self, Rank wanted) {
  Handshake handshake(self, true);
  handshake.peer_rank_ = wanted;
  handshake.expected_ = Kind::welcome;
  DABKE_RETURN_IF_ERROR(handshake.start());
  handshake.put_preamble(Kind::hello);
  handshake.put_body(wanted);
  handshake.transcript_ = handshake.out_;
  return handshake;
}

Result<Handshake> Handshake::accept(const Self& self, std::function<bool(Rank)> may_connect) {
  Handshake handshake(self, false);
  handshake.may_connect_ = std::move(may_connect);
  DABKE_RETURN_IF_ERROR(handshake.start());
  return handshake;
}

Status Handshake::start() {
  expect(State::preamble, kPreamble);
  return random_bytes(nonce_);
}

Status Handshake::receive(std::span<const std::byte> bytes) {
  assert(bytes.size() <= wanted());
  in_.insert(in_.end(), bytes.begin(), bytes.end());
  while (!over() && in_.size() == need_) DABKE_RETURN_IF_ERROR(step());
  return {};
}

Status Handshake::step() {
  switch (state_) {
    case State::preamble: return on_preamble();
    case State::body:
      if (expected_ == Kind::hello) return on_hello();
      return expected_ == Kind::welcome ? on_welcome() : on_proof();
    case State::refusal_length: {
      const std::size_t length = load_le<std::uint16_t>(in_.data() + kPreamble);
      expect(State::refusal_text, std::min(length, kMostRefusal));
      return {};
    }
    case State::refusal_text:
      return fail(Code::transport, "it refused: " + printable(std::span(in_).subspan(kPreamble + 2)));
    case State::done:
    case State::failed: break;
  }
  return {};
}

Status Handshake::on_preamble() {
  if (std::memcmp(in_.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail(Code::transport,
                "it does not speak Dabke's link protocol");  // no answer: the peer would not understand it
  }
  const auto version = load_le<std::uint32_t>(in_.data() + kMagic.size());
  const auto kind = static_cast<Kind>(in_.back());
  if (kind == Kind::refused && connector_) {
    expect(State::refusal_length, 2);
    return {};
  }
  if (version != self_.version) {
    return refuse(
        Code::mismatch,
        fmt::format("the connecting rank speaks version {} of the link protocol and the accepting rank "
                    "version {}; install the same Dabke on every host",
                    connector_ ? self_.version : version, connector_ ? version : self_.version));
  }
  if (kind != expected_) {
    return fail(Code::transport, fmt::format("it sent step {} instead of step {}", static_cast<int>(kind),
                                             static_cast<int>(expected_)));
  }
  switch (expected_) {
    case Kind::hello: expect(State::body, kBody); break;
    case Kind::welcome: expect(State::body, kBody + kMac); break;
    case Kind::proof: expect(State::body, kMac); break;
    default: state_ = State::done; break;
  }
  return {};
}

Status Handshake::on_hello() {
  read_peer(in_.data() + kPreamble);
  if (auto status = check_peer(); !status.is_ok()) return refuse(status.code(), status.message());
  if (!may_connect_(peer_rank_)) {
    return refuse(
        Code::invalid_argument,
        fmt::format("rank {} is not expected here, or is already linked to rank {}", peer_rank_, self_.rank));
  }
  transcript_ = in_;
  put_preamble(Kind::welcome);
  put_body(peer_rank_);
  transcript_.insert(transcript_.end(), out_.begin(), out_.end());
  const auto made = mac("acceptor");
  if (!made.is_ok()) {
    out_.clear();  // a refusal is sent instead of a welcome without proof
    return refuse(made.status().code(), made.status().message());
  }
  const Digest& proof = *made;
  out_.insert(out_.end(), proof.begin(), proof.end());
  expected_ = Kind::proof;
  in_.clear();
  expect(State::preamble, kPreamble);
  return {};
}

Status Handshake::on_welcome() {
  const Rank wanted = peer_rank_;
  read_peer(in_.data() + kPreamble);
  if (auto status = check_peer(); !status.is_ok()) return fail(status.code(), status.message());
  if (peer_rank_ != wanted) {
    return fail(Code::mismatch, fmt::format("rank {} answered instead of rank {}", peer_rank_, wanted));
  }
  transcript_.insert(transcript_.end(), in_.begin(), in_.end() - kMac);
  Digest theirs;
  std::copy(in_.end() - kMac, in_.end(), theirs.begin());
  const auto expected = mac("acceptor");
  if (!expected.is_ok()) return fail(expected.status().code(), expected.status().message());
  if (!digests_equal(theirs, *expected)) {
    return fail(
        Code::mismatch,
        fmt::format("rank {} does not have this job's key; DABKE_JOB_KEY must be the same on every rank",
                    peer_rank_));
  }
  put_preamble(Kind::proof);
  const auto made = mac("connector");
  if (!made.is_ok()) return fail(made.status().code(), made.status().message());
  const Digest& proof = *made;
  out_.insert(out_.end(), proof.begin(), proof.end());
  expected_ = Kind::accepted;
  in_.clear();
  expect(State::preamble, kPreamble);
  return {};
}

Status Handshake::on_proof() {
  Digest theirs;
  std::copy(in_.end() - kMac, in_.end(), theirs.begin());
  const auto expected = mac("connector");
  if (!expected.is_ok()) return refuse(expected.status().code(), expected.status().message());
  if (!digests_equal(theirs, *expected)) {
    return refuse(Code::mismatch, fmt::format("a process that claims to be rank {} does not have this job's "
                                              "key; DABKE_JOB_KEY must be the same on every rank",
                                              peer_rank_));
  }
  if (!may_connect_(peer_rank_)) {
    return refuse(Code::invalid_argument,
                  fmt::format("rank {} is already linked to rank {}", peer_rank_, self_.rank));
  }
  put_preamble(Kind::accepted);
  state_ = State::done;
  return {};
}

Status Handshake::check_peer() const {
  if (peer_job_ != self_.job_id) {
    return {Code::mismatch,
            fmt::format("rank {} belongs to job {}, rank {} to another", peer_rank_, to_hex(peer_job_),
                        self_.rank)};  // without our job, because this is sent before the proof
  }
  if (peer_epoch_ != self_.epoch) {
    return {Code::mismatch, fmt::format("rank {} is in epoch {} of the job, rank {} in epoch {}", peer_rank_,
                                        peer_epoch_, self_.rank, self_.epoch)};
  }
  if (peer_wants_ != self_.rank || peer_rank_ == self_.rank) {
    return {Code::mismatch, fmt::format("rank {} wants to reach rank {}, but this is rank {}", peer_rank_,
                                        peer_wants_, self_.rank)};
  }
  return {};
}

void Handshake::read_peer(const std::byte* body) {
  std::memcpy(peer_job_.data(), body + kJob, peer_job_.size());
  peer_epoch_ = load_le<std::uint64_t>(body + kEpoch);
  peer_rank_ = static_cast<Rank>(load_le<std::uint32_t>(body + kFrom));
  peer_wants_ = static_cast<Rank>(load_le<std::uint32_t>(body + kTo));
  std::memcpy(peer_process_.boot_id.data(), body + kBoot, peer_process_.boot_id.size());
  peer_process_.pid_namespace = load_le<std::uint64_t>(body + kPidNamespace);
  peer_process_.pid = load_le<std::uint32_t>(body + kPid);
}

void Handshake::put_preamble(Kind kind) {
  std::array<std::byte, kPreamble> preamble{};
  std::memcpy(preamble.data(), kMagic.data(), kMagic.size());
  store_le(self_.version, preamble.data() + kMagic.size());
  preamble.back() = static_cast<std::byte>(kind);
  out_.insert(out_.end(), preamble.begin(), preamble.end());
}

void Handshake::put_body(Rank to) {
  std::array<std::byte, kBody> body{};
  std::memcpy(body.data() + kJob, self_.job_id.data(), self_.job_id.size());
  store_le(self_.epoch, body.data() + kEpoch);
  store_le(static_cast<std::uint32_t>(self_.rank), body.data() + kFrom);
  store_le(static_cast<std::uint32_t>(to), body.data() + kTo);
  std::memcpy(body.data() + kNonce, nonce_.data(), nonce_.size());
  std::memcpy(body.data() + kBoot, self_.process.boot_id.data(), self_.process.boot_id.size());
  store_le(self_.process.pid_namespace, body.data() + kPidNamespace);
  store_le(self_.process.pid, body.data() + kPid);
  out_.insert(out_.end(), body.begin(), body.end());
}

Result<Digest> Handshake::mac(std::string_view role) const {
  std::vector<std::byte> message;
  message.reserve(role.size() + transcript_.size());
  for (const char c : role) message.push_back(static_cast<std::byte>(c));
  message.insert(message.end(), transcript_.begin(), transcript_.end());
  return hmac_sha256(self_.job_key, message);
}

void Handshake::expect(State state, std::size_t more) {
  state_ = state;
  need_ = in_.size() + more;
}

Status Handshake::fail(Code code, std::string text) {
  state_ = State::failed;
  return {code, std::move(text)};
}

Status Handshake::refuse(Code code, std::string text) {
  if (!connector_) {
    put_preamble(Kind::refused);
    const std::size_t length = std::min(text.size(), kMostRefusal);
    std::array<std::byte, 2> prefix{};
    store_le(static_cast<std::uint16_t>(length), prefix.data());
    out_.insert(out_.end(), prefix.begin(), prefix.end());
    const auto bytes = std::as_bytes(std::span(text).first(length));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  return fail(code, std::move(text));
}

}  // namespace dabke::links

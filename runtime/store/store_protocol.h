// The protocol between the launcher's rendezvous store and its client.
//
// 1. One HTTP/1.1 request per connection, and no connection is idle in between:
//      PUT    <value path><key>                body = value; 200
//      GET    <value path><key>?wait_ms=<n>    200 with the value, or 404 after n ms; n is at most
//                                              kLongestWait
//      POST   <counter path><key>?amount=<n>   adds n, or 1 without the parameter; 200 with the new count as
//                                              decimal text; 409 if the key holds other text
//      DELETE <value path><prefix>             removes prefix and all below prefix/; an empty prefix removes
//                                              all; 200
//    A counter is a value whose text is a number, so GET reads it. Keys are percent-encoded, except '/'.
// 2. Every request names the job and carries a nonce, a seal of its body, and a proof over all of it that the
//    client has the job's key. The proof is in the head, so the store reads no body, and keeps nothing, of a
//    client without the key. The nonce is `<client>-<n>`: 16 random bytes in hexadecimal, made once for each
//    client, and a count from 1. The store takes each nonce once, so a recorded request cannot be replayed.
//    No clock is involved, because the clocks of hosts differ.
// 3. The store drops a client that does not send a proof in time, and the oldest one if there are too many of
//    these. A client whose connection ends before an answer sends the same request again, nonce included. The
//    store takes it at most once.
// 4. Every answer to a genuine request carries the store's proof over nonce, status and body. Two answers
//    have none: 403 is for a client with another job or key. 507 means that the store has no memory left for
//    the request, which may have been carried out or not.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/hmac.h"

namespace dabke::store::protocol {

inline constexpr std::string_view kValuePath = "/dabke/1/value/";
inline constexpr std::string_view kCounterPath = "/dabke/1/counter/";
inline constexpr std::string_view kWaitParameter = "wait_ms";
inline constexpr std::string_view kAmountParameter = "amount";

inline constexpr std::string_view kJobHeader = "X-Dabke-Job";
inline constexpr std::string_view kNonceHeader = "X-Dabke-Nonce";
inline constexpr std::string_view kBodyHeader = "X-Dabke-Body";  // the seal
inline constexpr std::string_view kProofHeader = "X-Dabke-Proof";

inline constexpr int kOk = 200;
inline constexpr int kRefused = 403;
inline constexpr int kNotThere = 404;
inline constexpr int kNotACounter = 409;
inline constexpr int kNoMemory = 507;

/// A longer wait is several requests, so that no request outlives a client for long.
inline constexpr std::chrono::milliseconds kLongestWait{20'000};
/// Values are addresses and small tables; a larger one is a mistake.
inline constexpr std::size_t kLargestValue = std::size_t{64} << 20;
/// The longest key as it travels, percent-encoded.
inline constexpr std::size_t kLongestKey = 4096;

inline Result<std::string> proof(const JobKey& key, std::string_view message) {
  DABKE_ASSIGN_OR_RETURN(const Digest digest,
                         hmac_sha256(key, std::as_bytes(std::span(message.data(), message.size()))));
  return to_hex(digest);
}

/// The texts over which the proofs are computed.
inline std::string body_message(std::string_view body) {
  return std::string("dabke store body 2\n").append(body);
}
/// No part can contain a newline, so the text has only one meaning. `target` is path and query, as sent.
inline std::string request_message(std::string_view job, std::string_view method, std::string_view target,
                                   std::string_view nonce, std::string_view seal) {
  std::string message = "dabke store request 2\n";
  for (const std::string_view part : {job, method, target, nonce, seal}) message.append(part).append("\n");
  return message;
}
inline std::string answer_message(std::string_view nonce, int status, std::string_view body) {
  std::string message = "dabke store answer 1\n";
  message.append(nonce).append("\n").append(std::to_string(status)).append("\n");
  return message.append(body);
}

inline Result<std::string> body_seal(const JobKey& key, std::string_view body) {
  return proof(key, body_message(body));
}

inline Result<std::string> request_proof(const JobKey& key, std::string_view job, std::string_view method,
                                         std::string_view target, std::string_view nonce,
                                         std::string_view seal) {
  return proof(key, request_message(job, method, target, nonce, seal));
}

inline Result<std::string> answer_proof(const JobKey& key, std::string_view nonce, int status,
                                        std::string_view body) {
  return proof(key, answer_message(nonce, status, body));
}

/// Compares in constant time.
inline bool proofs_equal(std::string_view a, std::string_view b) {
  Digest left{};
  Digest right{};
  return from_hex(a, left).is_ok() && from_hex(b, right).is_ok() && digests_equal(left, right);
}

}  // namespace dabke::store::protocol

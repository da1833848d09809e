#include "runtime/store/store_request.h"

#include <fmt/format.h>

#include "runtime/store/store_protocol.h"

namespace dabke::store {

Result<std::string> store_request(const StoreSecret& secret, std::string_view authority,
                                  std::string_view nonce, std::string_view method, std::string_view target,
                                  std::string_view body) {
  DABKE_ASSIGN_OR_RETURN(const std::string seal, protocol::body_seal(secret.key, body));
  DABKE_ASSIGN_OR_RETURN(const std::string proof,
                         protocol::request_proof(secret.key, secret.job, method, target, nonce, seal));
  return fmt::format(
      "{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n"
      "Content-Length: {}\r\n{}: {}\r\n{}: {}\r\n{}: {}\r\n{}: {}\r\n\r\n{}",
      method, target, authority, body.size(), protocol::kJobHeader, secret.job, protocol::kNonceHeader, nonce,
      protocol::kBodyHeader, seal, protocol::kProofHeader, proof, body);
}

Result<bool> is_genuine(const StoreSecret& secret, std::string_view nonce, const HttpAnswer& answer) {
  if (answer.status() == protocol::kRefused) return false;
  DABKE_ASSIGN_OR_RETURN(const std::string wanted,
                         protocol::answer_proof(secret.key, nonce, answer.status(), answer.body()));
  return protocol::proofs_equal(answer.proof(), wanted);
}

}  // namespace dabke::store

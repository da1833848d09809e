// Requests to the rendezvous store in the form in which they travel, and the check of its answers
// (runtime/store/store_protocol.h).
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/store/http_answer.h"

namespace dabke::store {

/// The secret that makes a request genuine.
struct StoreSecret {
  std::string job;  // in hexadecimal
  JobKey key;
};

/// `authority` is the store's "host:port". A nonce is used once.
Result<std::string> store_request(const StoreSecret& secret, std::string_view authority,
                                  std::string_view nonce, std::string_view method, std::string_view target,
                                  std::string_view body);

/// True if a server with the key has answered the request with this nonce.
Result<bool> is_genuine(const StoreSecret& secret, std::string_view nonce, const HttpAnswer& answer);

}  // namespace dabke::store

// One request to the store, as it comes in over a connection.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace dabke::store {

/// Takes bytes as they come, and returns whether the head, and whether the whole request is complete. Bytes
/// after it are ignored.
class HttpRequest {
 public:
  /// A generous limit for the longest key, method and headers.
  static constexpr std::size_t kLargestHead = 16 << 10;

  enum class Progress { in_head, in_body, complete };
  /// Fails with code invalid_argument if the store cannot understand the request, or if it is too large.
  Result<Progress> append(std::string_view bytes);

  std::string_view method() const { return method_; }
  /// Path and query, as sent.
  std::string_view target() const { return target_; }
  std::string_view body() const { return body_; }
  // The headers that the store reads.
  std::string_view job() const { return job_; }
  std::string_view nonce() const { return nonce_; }
  std::string_view seal() const { return seal_; }
  std::string_view proof() const { return proof_; }

 private:
  Status read_head(std::string_view head);
  Status read_header(std::string_view name, std::string_view value);

  bool head_is_complete_ = false;
  std::string head_;
  std::string method_, target_, job_, nonce_, seal_, proof_;
  std::optional<std::size_t> body_bytes_;
  std::string body_;
};

}  // namespace dabke::store

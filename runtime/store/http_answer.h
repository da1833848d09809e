// One answer of the rendezvous store, as it comes in over a connection. Pure: bytes in; no socket, no clock.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace dabke::store {

/// Takes bytes as they come, and returns whether the answer is complete. Bytes after it are ignored.
class HttpAnswer {
 public:
  enum class Progress { more, complete };
  /// Fails with code transport if this cannot be an answer of the store.
  Result<Progress> append(std::string_view bytes);
  /// True if any byte has come, even one that is not part of an answer.
  bool has_begun() const { return head_is_complete_ || !received_.empty(); }

  int status() const { return status_; }
  std::string_view proof() const { return proof_; }
  const std::string& body() const { return body_; }

 private:
  Status read_head(std::string_view head);

  std::string received_;  // the head, until it is complete
  bool head_is_complete_ = false;
  int status_ = 0;
  std::string proof_;
  std::size_t body_bytes_ = 0;  // as the head announces
  std::string body_;
};

}  // namespace dabke::store

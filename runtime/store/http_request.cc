#include "runtime/store/http_request.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "runtime/store/http_head.h"
#include "runtime/store/store_protocol.h"

namespace dabke::store {
namespace {

Status bad(std::string text) { return {Code::invalid_argument, std::move(text)}; }

std::string_view without_spaces(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

Result<HttpRequest::Progress> HttpRequest::append(std::string_view bytes) {
  if (!head_is_complete_) {
    const std::size_t before = head_.size();
    head_.append(bytes);
    // The end may have begun in earlier bytes.
    const auto end = head_.find(http_head::kEnd, before - std::min(before, http_head::kEnd.size() - 1));
    const bool is_too_long =
        end == std::string::npos ? head_.size() >= kLargestHead + http_head::kEnd.size() : end > kLargestHead;
    if (is_too_long) return bad("the request's head is too long");
    if (end == std::string::npos) return Progress::in_head;
    DABKE_RETURN_IF_ERROR(read_head(std::string_view(head_).substr(0, end)));
    head_is_complete_ = true;
    body_ = head_.substr(end + http_head::kEnd.size());
    head_.clear();
  } else {
    body_.append(bytes);
  }
  if (body_.size() < *body_bytes_) return Progress::in_body;
  body_.resize(*body_bytes_);
  return Progress::complete;
}

Status HttpRequest::read_head(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const auto first = line.find(' ');
  const auto second = line.rfind(' ');
  if (first == std::string_view::npos || second == first || !line.substr(second + 1).starts_with("HTTP/1."))
    return bad("this is not HTTP/1.1");
  method_ = line.substr(0, first);
  target_ = line.substr(first + 1, second - first - 1);
  for (std::string_view rest = head.substr(line.size()); rest.size() > 2;) {
    rest.remove_prefix(2);
    const std::string_view header = rest.substr(0, rest.find("\r\n"));
    rest.remove_prefix(header.size());
    const auto colon = header.find(':');
    if (colon == std::string_view::npos) return bad("a header without a colon");
    DABKE_RETURN_IF_ERROR(read_header(header.substr(0, colon), without_spaces(header.substr(colon + 1))));
  }
  return body_bytes_ ? Status() : bad("the store needs a Content-Length");
}

Status HttpRequest::read_header(std::string_view name, std::string_view value) {
  if (http_head::is_same_name(name, protocol::kJobHeader)) job_ = value;
  if (http_head::is_same_name(name, protocol::kNonceHeader)) nonce_ = value;
  if (http_head::is_same_name(name, protocol::kBodyHeader)) seal_ = value;
  if (http_head::is_same_name(name, protocol::kProofHeader)) proof_ = value;
  for (const std::string_view refused : {"Transfer-Encoding", "Content-Encoding"})
    if (http_head::is_same_name(name, refused))
      return bad(fmt::format("the store does not accept {}", refused));
  if (!http_head::is_same_name(name, "Content-Length")) return {};
  if (body_bytes_) return bad("a second Content-Length");
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
  if (error != std::errc() || end != value.data() + value.size() || bytes > protocol::kLargestValue)
    return bad(fmt::format("Content-Length must be a number up to {}", protocol::kLargestValue));
  body_bytes_ = bytes;
  return {};
}

}  // namespace dabke::store

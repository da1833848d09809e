#include "runtime/store/http_answer.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "runtime/store/http_head.h"
#include "runtime/store/store_protocol.h"

namespace dabke::store {
namespace {

constexpr std::size_t kLargestHead = 16 << 10;

Status no_http() { return {Code::transport, "the server there does not speak HTTP"}; }

Result<std::size_t> parse_size(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > protocol::kLargestValue) {
    return Status(Code::transport, fmt::format("bad Content-Length '{}'", text));
  }
  return value;
}

}  // namespace

Result<HttpAnswer::Progress> HttpAnswer::append(std::string_view bytes) {
  if (!head_is_complete_) {
    const std::size_t before = received_.size();
    received_.append(bytes);
    // The end may have begun in earlier bytes.
    const auto end = received_.find(http_head::kEnd, before - std::min(before, http_head::kEnd.size() - 1));
    const bool is_too_long = end == std::string::npos
                                 ? received_.size() >= kLargestHead + http_head::kEnd.size()
                                 : end > kLargestHead;
    if (is_too_long) return no_http();
    if (end == std::string::npos) return Progress::more;
    DABKE_RETURN_IF_ERROR(read_head(std::string_view(received_).substr(0, end)));
    head_is_complete_ = true;
    body_ = received_.substr(end + http_head::kEnd.size());
    received_.clear();
  } else {
    body_.append(bytes);
  }
  if (body_.size() < body_bytes_) return Progress::more;
  body_.resize(body_bytes_);
  return Progress::complete;
}

/// Reads the status line and the headers, without the empty line.
Status HttpAnswer::read_head(std::string_view head) {
  const auto space = head.find(' ');
  if (!head.starts_with("HTTP/1.") || space == std::string_view::npos || head.size() < space + 4)
    return no_http();
  std::from_chars(head.data() + space + 1, head.data() + space + 4, status_);
  for (auto at = head.find("\r\n"); at != std::string_view::npos;) {
    const auto next = head.find("\r\n", at + 2);
    const std::string_view line = head.substr(at + 2, next == std::string_view::npos ? next : next - at - 2);
    at = next;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    if (http_head::is_same_name(line.substr(0, colon), protocol::kProofHeader)) proof_ = value;
    if (http_head::is_same_name(line.substr(0, colon), "Content-Length")) {
      DABKE_ASSIGN_OR_RETURN(body_bytes_, parse_size(value));
    }
  }
  return {};
}

}  // namespace dabke::store

// A request to the rendezvous store. A cut at any place makes no difference.
#include "runtime/store/http_request.h"
#include "tests/fuzz/check.h"

using dabke::store::HttpRequest;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::test::Input input(data, size);
  const std::size_t cut = input.number();
  const std::string_view bytes = input.rest();

  HttpRequest whole;
  const auto progress = whole.append(bytes);
  HttpRequest parts;
  auto last = parts.append(bytes.substr(0, std::min(cut, bytes.size())));
  if (cut < bytes.size() && last.is_ok() && *last != HttpRequest::Progress::complete)
    last = parts.append(bytes.substr(cut));

  FUZZ_CHECK(last.is_ok() == progress.is_ok());
  if (!progress.is_ok()) return 0;
  FUZZ_CHECK(*last == *progress);
  if (*progress == HttpRequest::Progress::in_head) return 0;
  FUZZ_CHECK(parts.method() == whole.method() && parts.target() == whole.target());
  FUZZ_CHECK(parts.job() == whole.job() && parts.nonce() == whole.nonce());
  FUZZ_CHECK(parts.seal() == whole.seal() && parts.proof() == whole.proof());
  FUZZ_CHECK(parts.body() == whole.body());
  return 0;
}

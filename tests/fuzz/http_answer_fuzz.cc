// The answer at the place where the rendezvous store should be. A cut at any place makes no difference.
#include "runtime/store/http_answer.h"
#include "tests/fuzz/check.h"

using dabke::store::HttpAnswer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::test::Input input(data, size);
  const std::size_t cut = input.number();
  const std::string_view bytes = input.rest();

  HttpAnswer whole;
  const auto progress = whole.append(bytes);
  HttpAnswer parts;
  auto last = parts.append(bytes.substr(0, std::min(cut, bytes.size())));
  if (cut < bytes.size() && last.is_ok() && *last == HttpAnswer::Progress::more)
    last = parts.append(bytes.substr(cut));

  FUZZ_CHECK(last.is_ok() == progress.is_ok());
  if (!progress.is_ok()) return 0;
  FUZZ_CHECK(*last == *progress);
  if (*progress == HttpAnswer::Progress::more) return 0;
  FUZZ_CHECK(parts.status() == whole.status() && parts.proof() == whole.proof() &&
             parts.body() == whole.body());
  return 0;
}

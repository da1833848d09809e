// The bytes at the place where an agent should answer. A cut at any place makes
// no difference, and no byte is lost.
#include "launcher/agent_protocol/greeting.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::test::Input input(data, size);
  const std::size_t cut = input.number();
  const std::string all(input.rest());

  std::string bytes = all, before;
  const auto greeting = dabke::launcher::take_greeting(bytes, before);
  std::string parts(all, 0, std::min(cut, all.size())), before_parts;
  auto found = dabke::launcher::take_greeting(parts, before_parts);
  parts.append(all, std::min(cut, all.size()));
  if (!found) found = dabke::launcher::take_greeting(parts, before_parts);

  FUZZ_CHECK(found.has_value() == greeting.has_value());
  FUZZ_CHECK(before == before_parts && bytes == parts);
  FUZZ_CHECK(all.starts_with(before) && all.ends_with(bytes));
  if (!greeting) {
    FUZZ_CHECK(before + bytes == all);
    FUZZ_CHECK(bytes.size() <= 400);  // no more is kept, whatever arrives
    return 0;
  }
  FUZZ_CHECK(found->version == greeting->version && found->machine == greeting->machine);
  FUZZ_CHECK(greeting->version.find_first_of(" \n") == std::string::npos);
  FUZZ_CHECK(greeting->machine.find('\n') == std::string::npos);
  std::string again = dabke::launcher::greeting_text(*greeting), nothing;
  const auto same = dabke::launcher::take_greeting(again, nothing);
  const bool is_short = again.empty();  // with the space that another version may leave out
  FUZZ_CHECK(!is_short || (same && same->version == greeting->version && same->machine == greeting->machine));
  return 0;
}

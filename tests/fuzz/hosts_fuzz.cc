// --hosts and host files. What is read as hosts has names and slots, and reads the same when it is written
// out.
#include <fmt/format.h>

#include "launcher/hosts.h"
#include "tests/fuzz/check.h"

namespace {

using dabke::Host;

void check_all(const std::vector<Host>& hosts) {
  FUZZ_CHECK(!hosts.empty());
  long slots = 0;
  std::string file;
  for (const Host& host : hosts) {
    FUZZ_CHECK(!host.name.empty() && host.slots >= 1);
    slots += host.slots;
    // In brackets, because a name that was may hold colons. What would end the line or the brackets cannot be
    // written.
    if (host.name.find_first_of("]#,\n\r") == std::string::npos)
      file += fmt::format("[{}] slots={}\n", host.name, host.slots);
  }
  if (!file.empty()) FUZZ_CHECK(dabke::parse_hostfile(file, "hosts").is_ok());
  const auto merged = dabke::merge_hosts(hosts);
  FUZZ_CHECK(!merged.empty() && merged.size() <= hosts.size());
  for (const Host& host : merged) slots -= host.slots;
  FUZZ_CHECK(slots == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::fuzz::Input input(data, size);
  const bool is_file = input.below(2) == 1;
  const std::string_view text = input.rest();
  const auto hosts = is_file ? dabke::parse_hostfile(text, "hosts") : dabke::parse_host_list(text, "--hosts");
  if (hosts.is_ok()) check_all(*hosts);
  return 0;
}

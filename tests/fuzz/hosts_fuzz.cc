// --hosts and host files. Hosts that were read have names and slots, and read the
// same after they were written again.
#include <map>

#include <fmt/format.h>

#include "launcher/hosts/hosts.h"
#include "tests/fuzz/check.h"

namespace {

using dabke::launcher::Host;

void check_all(const std::vector<Host>& hosts) {
  FUZZ_CHECK(!hosts.empty());
  std::map<std::string, int> slots;
  std::vector<Host> written;
  std::string file;
  for (const Host& host : hosts) {
    FUZZ_CHECK(!host.name.empty() && host.slots >= 1 && host.slots <= dabke::launcher::kMostSlots);
    slots[host.name] = dabke::launcher::add_slots(slots[host.name], host.slots);
    // The name is in brackets, because a name that was in brackets may have colons. A character that ends the
    // line or the brackets cannot be written.
    if (host.name.find_first_of("]#,\n\r") != std::string::npos) continue;
    file += fmt::format("[{}] slots={}\n", host.name, host.slots);
    written.push_back(host);
  }
  if (!written.empty()) {
    const auto read = dabke::launcher::parse_hostfile(file, "hosts");
    FUZZ_CHECK(read.is_ok() && *read == written);
  }
  const auto merged = dabke::launcher::merge_hosts(hosts);
  FUZZ_CHECK(merged.size() == slots.size());
  for (const Host& host : merged) FUZZ_CHECK(host.slots == slots[host.name]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::test::Input input(data, size);
  const bool is_file = input.below(2) == 1;
  const std::string_view text = input.rest();
  const auto hosts = is_file ? dabke::launcher::parse_hostfile(text, "hosts")
                             : dabke::launcher::parse_host_list(text, "--hosts");
  if (hosts.is_ok()) check_all(*hosts);
  return 0;
}

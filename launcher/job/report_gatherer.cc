#include "launcher/job/dump_gatherer.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace dabke {

Result<std::unique_ptr<DumpGatherer>> DumpGatherer::open() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return Status(Code::transport, fmt::format("eventfd: {}", ::strerror(errno)));
  return std::unique_ptr<DumpGatherer>(new DumpGatherer(std::move(event)));
}

void DumpGatherer::offer(const std::string& key, const std::string& value) {
  if (!is_dump_key(key)) return;
  auto dump = parse_dump(value);
  if (!dump.is_ok()) return;  // another version's, which its library says elsewhere
  const std::lock_guard lock(mutex_);
  dumps_.push_back(dump.take());
  const std::uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof one);
}

std::vector<Dump> DumpGatherer::take() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof count);
  return std::exchange(dumps_, {});
}

}  // namespace dabke

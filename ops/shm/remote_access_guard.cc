#include "ops/shm/remote_access_guard.h"

#include <thread>

#include <fmt/format.h>

#include "runtime/base/clock.h"

namespace dabke::ops {
namespace {

// A rank that is inside checks after each block whether it must leave. That takes microseconds, unless the
// rank gets no core.
constexpr auto kLongestVisit = std::chrono::milliseconds(300);

}  // namespace

Result<RemoteAccessGuard::Visit> RemoteAccessGuard::enter(const std::vector<std::size_t>& ranks) {
  ShmVisitState& own = domain_.visit(domain_.own());
  own.inside.store(1, std::memory_order_seq_cst);
  Visit visit(own);
  for (const std::size_t index : ranks) {
    if (domain_.visit(index).closed.load(std::memory_order_seq_cst) == 0) continue;
    return Status(Code::aborted, fmt::format("rank {} has failed", domain_.ranks()[index]));
  }
  return visit;
}

void RemoteAccessGuard::close(const std::vector<std::size_t>& ranks) {
  domain_.visit(domain_.own()).closed.store(1, std::memory_order_seq_cst);
  const TimePoint limit = Clock::now() + kLongestVisit;
  for (const std::size_t index : ranks) {
    if (index == domain_.own()) continue;
    while (domain_.visit(index).inside.load(std::memory_order_seq_cst) != 0 && Clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace dabke::ops

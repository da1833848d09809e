#pragma once

#include <atomic>
#include <cstdint>

namespace dabke::reports {

/// Counters of one rank since init. Each has one writing thread at a time; any thread may read.
struct Statistics {
  std::atomic<std::uint64_t> tensors_submitted{0};
  std::atomic<std::uint64_t> tensors_completed{0};
  std::atomic<std::uint64_t> tensors_failed{0};
  std::atomic<std::uint64_t> batches{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> messages_sent{0};
  std::atomic<std::uint64_t> messages_received{0};
  std::atomic<double> negotiation_seconds{0};
  std::atomic<double> execution_seconds{0};
};

}  // namespace dabke::reports

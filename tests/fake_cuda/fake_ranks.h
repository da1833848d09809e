// The ranks of a communicator of the fake NCCL. They share a segment with a mailbox for each
// pair of ranks, through which a collective goes in pieces. Each piece names its collective, so
// ranks that are out of step get an error.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/nccl/nccl_library.h"

namespace dabke::test {

inline constexpr int kMostRanks = 16;
inline constexpr int kMayShareDevices = 23000;  // the first version that can let ranks share a device
inline constexpr std::size_t kPieceBytes = 32768;

struct Mailbox {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> read;
  std::uint64_t call;   // the collective that the writer runs
  std::uint64_t bytes;  // size of this piece
  char data[kPieceBytes];
};
struct Segment {
  std::atomic<std::uint32_t> joined;
  std::atomic<std::int32_t> device[kMostRanks];  // +1
  std::atomic<std::int32_t> process[kMostRanks];
  std::atomic<std::size_t> host[kMostRanks];
  std::atomic<std::uint32_t> left[kMostRanks];
  Mailbox mailboxes[kMostRanks][kMostRanks];  // from, to
};

struct Shared {
  ~Shared() {
    if (segment != nullptr) ::munmap(segment, sizeof(Segment));
  }
  int rank = 0;
  int size = 0;
  int device = 0;
  int version = 0;
  bool may_share_device = false;
  std::string name;
  Segment* segment = nullptr;
  std::atomic<nccl::Error> state{nccl::kInProgress};
  std::atomic<bool> is_aborted{false};
  std::atomic<int> running{0};  // operations on the stream
  std::uint64_t calls = 0;
  std::mutex mutex;
  std::string error;
  std::thread joining;

  void fail(nccl::Error code, const std::string& text) {
    const std::lock_guard lock(mutex);
    if (error.empty()) error = text;
    state = code;
  }
};

struct Transfer {
  int peer;
  const char* send;  // null: this is a receive
  char* receive;
  std::size_t left;
};

/// Waits a moment, and longer after many tries.
void pause(int& tries);
/// Runs all transfers at once, those with the same peer in their order. Returns false
/// if something has ended the exchange.
bool exchange(Shared& comm, std::uint64_t call, const std::vector<Transfer>& transfers);
/// Waits until all ranks have joined.
void join(const std::shared_ptr<Shared>& comm);

}  // namespace dabke::test

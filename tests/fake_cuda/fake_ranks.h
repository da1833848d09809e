// The ranks of a communicator of the double: they share a segment with a mailbox for each pair of them, through which
// a collective goes in pieces. Each piece says of which collective it is, so ranks that are out of step are told so.
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
inline constexpr int kMayShareDevices = 23000;  // the first version whose ranks may, if they are told to
inline constexpr std::size_t kPieceBytes = 32768;

struct Mailbox {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> read;
  std::uint64_t call;   // what the writer believes to run
  std::uint64_t bytes;  // of this piece
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
  std::atomic<int> running{0};  // on the stream
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
  const char* send;  // null: it receives
  char* receive;
  std::size_t left;
};

/// Waits a moment, longer after many tries.
void pause(int& tries);
/// All of them at once, those with one peer in their order; false: something has ended it.
bool exchange(Shared& comm, std::uint64_t call, const std::vector<Transfer>& transfers);
/// Waits until all ranks have come.
void join(const std::shared_ptr<Shared>& comm);

}  // namespace dabke::test

#include "tests/fake_cuda/fake_ranks.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include <fmt/format.h>

#include "tests/fake_cuda/fake_cuda.h"

namespace dabke::test {
namespace {

/// True if a wait must end: the communicator was aborted or has failed, or
/// a rank is gone and that is noticed.
bool is_over(Shared& comm) {
  if (comm.is_aborted) return true;
  static const bool notices = std::getenv("FAKE_NCCL_NOTICES") != nullptr;
  for (int rank = 0; notices && rank < comm.size; ++rank) {
    const bool is_dead = ::kill(comm.segment->process[rank], 0) != 0 && errno == ESRCH;
    if (!is_dead && comm.segment->left[rank] == 0) continue;
    comm.fail(nccl::kRemoteError, "NET/double: rank " + std::to_string(rank) + " has closed its connection");
    return true;
  }
  const nccl::Error state = comm.state;
  return state != nccl::kSuccess && state != nccl::kInProgress;
}

}  // namespace

void pause(int& tries) {
  if (++tries < 32) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(tries < 200 ? 20 : 200));
}

bool exchange(Shared& comm, std::uint64_t call, const std::vector<Transfer>& transfers) {
  std::map<std::pair<int, bool>, std::deque<Transfer>> queues;
  for (const Transfer& one : transfers) {
    if (one.left != 0) queues[{one.peer, one.send != nullptr}].push_back(one);
  }
  int tries = 0;
  while (!queues.empty()) {
    bool moved = false;
    for (auto& [key, queue] : queues) {
      if (queue.empty()) continue;
      Transfer& one = queue.front();
      Mailbox& box = one.send != nullptr ? comm.segment->mailboxes[comm.rank][one.peer]
                                         : comm.segment->mailboxes[one.peer][comm.rank];
      const std::uint64_t written = box.written.load();
      const std::uint64_t read = box.read.load();
      std::size_t bytes = std::min(one.left, kPieceBytes);
      if (one.send != nullptr) {
        if (written != read) continue;
        box.call = call;
        box.bytes = bytes;
        std::memcpy(box.data, one.send, bytes);
        box.written = written + 1;
        one.send += bytes;
      } else {
        if (written == read) continue;
        if (box.call != call || box.bytes != bytes) {
          comm.fail(
              nccl::kInvalidUsage,
              fmt::format("the ranks are out of step: rank {} runs another collective: {:x} with {} bytes, "
                          "where this rank has {:x} with {}",
                          one.peer, box.call, box.bytes, call, bytes));
          return false;
        }
        std::memcpy(one.receive, box.data, bytes);
        box.read = read + 1;
        one.receive += bytes;
      }
      one.left -= bytes;
      if (one.left == 0) queue.pop_front();
      moved = true;
    }
    std::erase_if(queues, [](const auto& row) { return row.second.empty(); });
    if (moved) {
      tries = 0;
    } else if (is_over(comm)) {
      return false;
    } else {
      pause(tries);
    }
  }
  return true;
}

void join(const std::shared_ptr<Shared>& comm) {
  int tries = 0;
  Segment& all = *comm->segment;
  while (all.joined.load() != static_cast<std::uint32_t>(comm->size)) {
    if (comm->is_aborted) return;
    pause(tries);
  }
  ::shm_unlink(comm->name.c_str());
  fake_cuda_delay();
  for (int a = 0; a < comm->size; ++a) {
    for (int b = 0; b < a; ++b) {
      if (comm->may_share_device || all.device[a] != all.device[b] || all.host[a] != all.host[b]) continue;
      if (comm->version >= kMayShareDevices) {
        return comm->fail(
            nccl::kInvalidUsage,
            "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to "
            "enable this configuration.");
      }
      return comm->fail(nccl::kInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a) +
                                                 " and rank " + std::to_string(b) + " both on CUDA device " +
                                                 std::to_string(all.device[a] - 1));
    }
  }
  comm->state = nccl::kSuccess;
}

}  // namespace dabke::test

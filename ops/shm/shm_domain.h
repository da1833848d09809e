// The ranks of one host that share memory, and that memory.
//
// Found by trying, once, when the backends are made:
//   1. The lowest rank of the host is the leader; every other rank of the host opens a link to it. Whose link
//      does not go through shared memory (another container, user or host of the same name) is not of the
//      domain.
//   2. The leader makes a segment with a part for each rank and offers it: a frame with its form and the
//      descriptor.
//   3. Each maps it, reserves its own part, touching it first, and answers: nothing, or why it cannot.
//   4. When all could, the leader says so. When one could not, it tries again with a quarter; when that is
//      too little, there is no domain, and one rank says why.
// The descriptors are closed then: nothing has a name, and the last process to end takes the memory with it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "ops/shm/batch_marks.h"
#include "ops/shm/store_choice.h"
#include "runtime/backend/backend.h"
#include "runtime/links/shm/segment.h"

namespace dabke::ops {

/// How far a rank is, for the others to wait on. A line of its own, because it is written often.
struct alignas(64) ShmProgress {
  /// What it has published last: (order << 24) | step. Only ever grows.
  std::atomic<std::uint64_t> reached{0};
  /// Changes when somebody who sleeps is to look again; the kernel's word to sleep on.
  std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> sleepers{0};
  BatchMarks marks;
};
static_assert(sizeof(ShmProgress) == 64);

/// Data so small that it travels in the cache lines that tell of it: each line has the step it belongs to.
struct alignas(64) ShmInlineLine {
  std::atomic<std::uint64_t> step{0};
  std::array<std::byte, 56> data{};
};
struct ShmInlineMessage {
  std::array<ShmInlineLine, 4> lines;
};

/// Whether a rank works on memory of others; shm_visits.h.
struct alignas(64) ShmVisitState {
  std::atomic<std::uint32_t> inside{0};
  std::atomic<std::uint32_t> closed{0};
};

/// The socket at which a rank takes descriptors while it meets others; peer_heaps.h.
struct alignas(64) FdExchange {
  std::uint32_t name_bytes = 0;  // the local socket's; 0: none
  char name[28] = {};
  std::array<std::byte, 16> secret{};
};

/// The stages of each rank; what it writes to is free in turn, as `ShmSteps` says.
inline constexpr std::size_t kShmStages = 2;

/// What lies before the stages of a rank.
struct ShmHead {
  ShmProgress progress;
  std::array<ShmInlineMessage, kShmStages> inline_messages;
  ShmVisitState visit;
  FdExchange fd_exchange;
  ShmStoreNotes store_notes;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

class ShmDomain {
 public:
  /// Null when this rank shares memory with no other. Collective over the ranks of the host.
  static Result<std::unique_ptr<ShmDomain>> open(const BackendContext& context);

  /// World ranks, ascending.
  const std::vector<Rank>& ranks() const { return ranks_; }
  std::size_t size() const { return ranks_.size(); }
  /// This rank's index among them.
  std::size_t own() const { return own_; }
  /// The size of each of a rank's stages; more than 64 bytes for each rank of the domain.
  std::size_t stage_bytes() const { return stage_bytes_; }

  ShmProgress& progress(std::size_t index) const { return head(index).progress; }
  ShmVisitState& visit(std::size_t index) const { return head(index).visit; }
  FdExchange& fd_exchange(std::size_t index) const { return head(index).fd_exchange; }
  ShmStoreNotes& store_notes(std::size_t index) const { return head(index).store_notes; }
  /// Written by rank `index` alone, read by all, like its stages.
  ShmInlineMessage& inline_message(std::size_t index, std::size_t which) const {
    return head(index).inline_messages[which];
  }
  std::byte* stage(std::size_t index, std::size_t which) const {
    return part(index) + kHeadBytes + which * stage_bytes_;
  }

 private:
  struct Form;
  class Leader;
  class Member;

  static constexpr std::size_t kHeadBytes = 4096;
  static_assert(sizeof(ShmHead) <= kHeadBytes);
  static std::size_t part_bytes(std::size_t stage_bytes) { return kHeadBytes + kShmStages * stage_bytes; }

  ShmDomain(shm::Segment segment, std::vector<Rank> ranks, std::size_t own, std::size_t stage_bytes);
  std::byte* part(std::size_t index) const {
    return segment_.bytes().data() + index * part_bytes(stage_bytes_);
  }

  ShmHead& head(std::size_t index) const { return *reinterpret_cast<ShmHead*>(part(index)); }

  shm::Segment segment_;
  std::vector<Rank> ranks_;
  std::size_t own_;
  std::size_t stage_bytes_;
};

}  // namespace dabke::ops

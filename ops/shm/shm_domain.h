// The ranks of one host that share memory, and that memory.
//
// The domain is found by trial, once, when the backends are made:
//   1. The lowest rank of the host is the leader; every other rank of the host opens a link to it. A rank
//      whose link does not go through shared memory (another container, user or host of the same name) is not
//      in the domain.
//   2. The leader makes a segment with a part for each rank. It offers the segment to each rank: a frame with
//      its form, and the descriptor.
//   3. Each rank maps the segment, reserves its own part by touching it first, and answers whether it could,
//      or why not.
//   4. If all could, the leader announces it. If a rank could not, the leader tries again with a quarter of
//      the stages. Below a minimum there is no domain, and the leader logs why.
// Then the descriptors are closed: the memory has no name, and is freed when the last process ends.
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

/// The progress of a rank, on which others wait. It has a cache line of its own, because it is written often.
struct alignas(64) ShmProgress {
  /// The last published step: (order << 24) | step. Only ever grows.
  std::atomic<std::uint64_t> reached{0};
  /// The futex word. It changes when sleepers must check again.
  std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> sleepers{0};
  BatchMarks marks;
};
static_assert(sizeof(ShmProgress) == 64);

/// Data so small that it travels in the cache lines that announce it. Each line holds the step to which it
/// belongs.
struct alignas(64) ShmInlineLine {
  std::atomic<std::uint64_t> step{0};
  std::array<std::byte, 56> data{};
};
struct ShmInlineMessage {
  std::array<ShmInlineLine, 4> lines;
};

/// The state of a rank that works on others' memory; remote_access_guard.h.
struct alignas(64) ShmVisitState {
  std::atomic<std::uint32_t> inside{0};
  std::atomic<std::uint32_t> closed{0};
};

/// The socket at which a rank receives descriptors while it meets others; peer_heaps.h.
struct alignas(64) FdExchange {
  std::uint32_t name_bytes = 0;  // length of the local socket's name; 0: none
  char name[28] = {};
  std::array<std::byte, 16> secret{};
};

/// The number of stages of each rank. `ShmSteps` describes when a stage is free.
inline constexpr std::size_t kShmStages = 2;

/// The data that lie before the stages of a rank.
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
  /// Returns null if this rank shares memory with no other. Collective over the ranks of the host.
  static Result<std::unique_ptr<ShmDomain>> open(const BackendContext& context);

  /// World ranks, ascending.
  const std::vector<Rank>& ranks() const { return ranks_; }
  std::size_t size() const { return ranks_.size(); }
  /// This rank's index in ranks().
  std::size_t own() const { return own_; }
  /// The size of each of a rank's stages; more than 64 bytes for each rank of the domain.
  std::size_t stage_bytes() const { return stage_bytes_; }

  ShmProgress& progress(std::size_t index) const { return head(index).progress; }
  ShmVisitState& visit(std::size_t index) const { return head(index).visit; }
  FdExchange& fd_exchange(std::size_t index) const { return head(index).fd_exchange; }
  ShmStoreNotes& store_notes(std::size_t index) const { return head(index).store_notes; }
  /// Only rank `index` writes it and all ranks read it, as with its stages.
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

// The registered memory of the ranks of a domain, as this rank has it mapped.
//
// A rank's registered memory is one file (shared_heap.h), so a peer needs its descriptor once. It is passed
// when a batch needs it for the first time, a collective act of the ranks of that batch:
//   1. Each opens a local socket for datagrams, leaves its name and a fresh secret in its part of the
//      domain's memory, and all wait for all.
//   2. In turn, a few owners at a time, so that no queue gets full: they send their descriptors to those who
//      lack them; all wait; everybody takes what has come; all wait. A datagram that does not begin with the
//      receiver's secret is thrown away: only who has the domain's memory, and so has proved itself when that
//      was made, knows it.
//   3. Each maps what it has got, says whether it could, and all wait and look: it was all of them, or it is
//      no good.
// Later, when the file has grown, step 3 is enough: a mapping can be made longer without the descriptor.
#pragma once

#include <vector>

#include "ops/shm/shm_steps.h"
#include "runtime/base/log.h"
#include "runtime/links/shm/shared_heap.h"

namespace dabke::ops {

class PeerHeaps {
 public:
  /// `heap`: this rank's; null when it has none. Must outlive this.
  PeerHeaps(ShmDomain& domain, ShmSteps& steps, shm::SharedHeap* heap, Log log);
  PeerHeaps(const PeerHeaps&) = delete;
  PeerHeaps& operator=(const PeerHeaps&) = delete;
  ~PeerHeaps();

  /// This rank's; null when there is none.
  const shm::SharedHeap* own() const { return heap_; }
  /// The begin of the memory of rank `index` of the domain; valid until the next reach().
  std::byte* base(std::size_t index) const { return peers_[index].base; }

  /// Maps at least `extents[place]` bytes of each member (0: nothing new). Collective over the members, with
  /// the same arguments; whether all could, the same on all. `is_first`: these members have never done so for
  /// one of these.
  Result<bool> reach(const std::vector<std::size_t>& members, const std::vector<std::size_t>& extents,
                     bool is_first);

 private:
  struct Peer {
    std::byte* base = nullptr;
    std::size_t mapped = 0;
    bool was_sent = false;  // our descriptor to it
  };
  struct HeapNotice {
    std::array<std::byte, 16> secret;
    std::uint32_t from;
  };

  Status pass_descriptors(const std::vector<std::size_t>& members, const std::vector<std::size_t>& extents);
  Result<Fd> open_door();
  void send_to(const std::vector<std::size_t>& members);
  void take_from(int exchange, const std::vector<std::size_t>& members,
                 const std::vector<std::size_t>& extents);
  Status map(Peer& peer, int fd, std::size_t extent);
  Status grow(std::size_t index, std::size_t extent);
  Result<bool> all_agree(bool yes, std::size_t members);

  ShmDomain& domain_;
  ShmSteps& steps_;
  shm::SharedHeap* const heap_;
  Log log_;
  std::vector<Peer> peers_;  // by index in the domain
  bool has_warned_ = false;
};

}  // namespace dabke::ops

// The registered memory of the ranks of a domain, as this rank has mapped it.
//
// A rank's registered memory is one file (shared_heap.h), so a peer needs its descriptor once. The descriptor
// is passed when a batch first needs it, collectively over the ranks of that batch:
//   1. Each rank opens a local socket for datagrams, and writes its name and a fresh secret to its part of
//      the domain's memory. All wait for all.
//   2. The owners send in turn, a few at a time, so that no queue gets full. They send their descriptors to
//      the ranks that lack them; all wait; every rank takes the descriptors that have arrived; all wait. A
//      datagram that does not begin with the receiver's secret is dropped. Only ranks that have the domain's
//      memory, and so were authenticated when it was made, can read the secret.
//   3. Each rank maps the descriptors that it has got and publishes whether it could. All wait and read the
//      results. The memory is used only if all ranks could.
// When the file has grown later, step 3 is enough: a mapping can be extended without the descriptor.
#pragma once

#include <vector>

#include "ops/shm/shm_steps.h"
#include "runtime/base/log.h"
#include "runtime/links/shm/shared_heap.h"

namespace dabke::ops {

class PeerHeaps {
 public:
  /// `heap` is this rank's registered memory; null if it has none. Must outlive this object.
  PeerHeaps(ShmDomain& domain, ShmSteps& steps, shm::SharedHeap* heap, Log log);
  PeerHeaps(const PeerHeaps&) = delete;
  PeerHeaps& operator=(const PeerHeaps&) = delete;
  ~PeerHeaps();

  /// Returns this rank's heap; null if there is none.
  const shm::SharedHeap* own() const { return heap_; }
  /// Returns the start of the memory of rank `index` of the domain; valid until the next reach().
  std::byte* base(std::size_t index) const { return peers_[index].base; }

  /// Maps at least `extents[set_rank]` bytes of each member (0: nothing new). Collective over the members,
  /// with the same arguments. True if all members could; the same result on all. `is_first` means that these
  /// members have never mapped memory of one of these ranks.
  Result<bool> reach(const std::vector<std::size_t>& members, const std::vector<std::size_t>& extents,
                     bool is_first);

 private:
  struct Peer {
    std::byte* base = nullptr;
    std::size_t mapped = 0;
    bool was_sent = false;  // our descriptor was sent to the peer
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

  ShmDomain& domain_;
  ShmSteps& steps_;
  shm::SharedHeap* const heap_;
  Log log_;
  std::vector<Peer> peers_;  // by index in the domain
  bool has_warned_ = false;
};

}  // namespace dabke::ops

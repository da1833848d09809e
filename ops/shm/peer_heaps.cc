#include "ops/shm/peer_heaps.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/links/shm/aligned_mapping.h"
#include "runtime/links/shm/local_socket.h"

namespace dabke::ops {
namespace {

// A queue of datagrams may be limited to ten. The descriptors in flight may be as many as a process may have
// open.
constexpr std::size_t kMostNotices = 8;
constexpr std::size_t kMostUnderWay = 512;
constexpr int kMostStrangers = 64;

std::size_t rounded(std::size_t bytes) {
  return (bytes + shm::kHugePage - 1) / shm::kHugePage * shm::kHugePage;
}

}  // namespace

PeerHeaps::PeerHeaps(ShmDomain& domain, ShmSteps& steps, shm::SharedHeap* heap, Log log)
    : domain_(domain), steps_(steps), heap_(heap), log_(std::move(log)), peers_(domain.size()) {}

PeerHeaps::~PeerHeaps() {
  for (const Peer& peer : peers_) {
    if (peer.base != nullptr) ::munmap(peer.base, peer.mapped);
  }
}

Result<bool> PeerHeaps::reach(const std::vector<std::size_t>& members,
                              const std::vector<std::size_t>& extents, bool is_first) {
  if (is_first) DABKE_RETURN_IF_ERROR(pass_descriptors(members, extents));
  Status status;
  for (std::size_t set_rank = 0; set_rank < members.size(); ++set_rank) {
    if (extents[set_rank] == 0 || members[set_rank] == domain_.own()) continue;
    Status grown = grow(members[set_rank], extents[set_rank]);
    if (grown.code() == Code::internal) return grown;  // the old mapping is gone, so the run cannot go on
    if (!grown.is_ok() && status.is_ok()) status = std::move(grown);
  }
  if (!status.is_ok() && !std::exchange(has_warned_, true))
    log_.warning("registered memory is copied like other memory from now on: {}", status.message());
  return steps_.all_agree(status.is_ok());
}

Status PeerHeaps::pass_descriptors(const std::vector<std::size_t>& members,
                                   const std::vector<std::size_t>& extents) {
  auto exchange = open_door();
  if (!exchange) domain_.fd_exchange(domain_.own()).name_bytes = 0;
  steps_.publish();
  DABKE_RETURN_IF_ERROR(steps_.wait_for_all());
  std::vector<std::size_t> owners;
  for (std::size_t set_rank = 0; set_rank < members.size(); ++set_rank) {
    if (extents[set_rank] != 0) owners.push_back(members[set_rank]);
  }
  const std::size_t at_a_time = std::clamp<std::size_t>(kMostUnderWay / members.size(), 1, kMostNotices);
  for (std::size_t begin = 0; begin < owners.size(); begin += at_a_time) {
    const std::size_t end = std::min(begin + at_a_time, owners.size());
    if (std::count(owners.begin() + static_cast<std::ptrdiff_t>(begin),
                   owners.begin() + static_cast<std::ptrdiff_t>(end), domain_.own()) != 0)
      send_to(members);
    steps_.publish();
    DABKE_RETURN_IF_ERROR(steps_.wait_for_all());
    if (exchange) take_from(exchange->get(), members, extents);
    steps_.publish();
    DABKE_RETURN_IF_ERROR(steps_.wait_for_all());
  }
  return {};
}

Result<Fd> PeerHeaps::open_door() {
  FdExchange& exchange = domain_.fd_exchange(domain_.own());
  DABKE_RETURN_IF_ERROR(random_bytes(exchange.secret));
  std::string name;
  DABKE_ASSIGN_OR_RETURN(Fd fd, shm::local_datagrams(name));
  if (name.empty() || name.size() > sizeof exchange.name)
    return Status(Code::internal, "the kernel chose a name of an unexpected form");
  std::ranges::copy(name, exchange.name);
  exchange.name_bytes = static_cast<std::uint32_t>(name.size());
  return fd;
}

// A member that gets nothing reports failure in the end. The reason does not matter to the other ranks.
void PeerHeaps::send_to(const std::vector<std::size_t>& members) {
  for (const std::size_t index : members) {
    Peer& peer = peers_[index];
    const FdExchange& exchange = domain_.fd_exchange(index);
    if (index == domain_.own() || peer.was_sent || exchange.name_bytes == 0 ||
        exchange.name_bytes > sizeof exchange.name)
      continue;
    auto socket = shm::local_datagrams_to(std::string(exchange.name, exchange.name_bytes));
    if (!socket) continue;
    const HeapNotice notice{exchange.secret, static_cast<std::uint32_t>(domain_.own())};
    const int fd = heap_->descriptor();
    peer.was_sent =
        shm::send_descriptors(socket->get(), std::as_bytes(std::span(&notice, 1)), std::span(&fd, 1)).is_ok();
  }
}

void PeerHeaps::take_from(int exchange, const std::vector<std::size_t>& members,
                          const std::vector<std::size_t>& extents) {
  for (int strangers = 0; strangers < kMostStrangers;) {
    HeapNotice notice{};
    auto received = shm::receive_descriptors(exchange, std::as_writable_bytes(std::span(&notice, 1)));
    if (received && received->bytes == 0) return;
    const bool is_ours = received && received->bytes == sizeof notice && received->descriptors.size() == 1 &&
                         notice.secret == domain_.fd_exchange(domain_.own()).secret;
    const auto member = std::ranges::find(members, notice.from);
    if (!is_ours || member == members.end()) {
      ++strangers;
      continue;
    }
    Peer& peer = peers_[*member];
    if (peer.base != nullptr) continue;
    // A failed mapping is reported in grow().
    (void)map(peer, received->descriptors[0].get(),
              extents[static_cast<std::size_t>(member - members.begin())]);
  }
}

Status PeerHeaps::map(Peer& peer, int fd, std::size_t extent) {
  struct stat info {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || static_cast<std::size_t>(info.st_size) < extent ||
      seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return {Code::mismatch, "the memory that was passed is not registered memory"};
  DABKE_ASSIGN_OR_RETURN(peer.base, shm::map_aligned(fd, 0, rounded(extent)));
  peer.mapped = rounded(extent);
  // A child process does not use this memory, and should not keep the memory of a peer that has ended.
  (void)::madvise(peer.base, peer.mapped, MADV_DONTFORK);
  return {};
}

Status PeerHeaps::grow(std::size_t index, std::size_t extent) {
  Peer& peer = peers_[index];
  if (peer.base == nullptr) {
    return {Code::transport, fmt::format("cannot map the memory of rank {}; raise the limits on open files "
                                         "(ulimit -n) and address space (ulimit -v)",
                                         domain_.ranks()[index])};
  }
  if (peer.mapped >= extent) return {};
  DABKE_RETURN_IF_ERROR(shm::grow_aligned(peer.base, peer.mapped, rounded(extent)));
  peer.mapped = rounded(extent);
  return {};
}

}  // namespace dabke::ops

#include "runtime/links/shm/shm_agreement.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/links/little_endian.h"
#include "runtime/links/shm/local_socket.h"

namespace dabke::shm {
namespace {

using Offer = std::array<std::byte, 16>;  // magic, size of the segment
constexpr std::array<char, 8> kAgreementMagic = {'D', 'A', 'B', 'K', 'E', 'S', 'H', '1'};
constexpr std::byte kTakenWord{'T'}, kAgreedWord{'A'};

Offer offer() {
  Offer bytes{};
  std::memcpy(bytes.data(), kAgreementMagic.data(), kAgreementMagic.size());
  links::store_le<std::uint64_t>(sizeof(ShmLinkMemory), bytes.data() + kAgreementMagic.size());
  return bytes;
}

Status send_word(int socket, std::byte word) {
  if (::send(socket, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return {};
  return system_error("the connection broke", errno);
}

Result<Fd> new_event() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return system_error("eventfd", errno);
  return fd;
}

}  // namespace

Result<bool> ShmAgreement::advance(int socket) {
  if (step_ == Step::agreed) return true;
  if (step_ == Step::taken) return await_word(socket);
  return parts_.is_connector ? take_offer(socket) : send_offer(socket);
}

Result<bool> ShmAgreement::send_offer(int socket) {
  DABKE_ASSIGN_OR_RETURN(parts_.segment, Segment::create("dabke-link", sizeof(ShmLinkMemory), guard_));
  DABKE_ASSIGN_OR_RETURN(Fd own, new_event());
  DABKE_ASSIGN_OR_RETURN(Fd theirs, new_event());
  parts_.own_event = GuardedFd(std::move(own), guard_);
  parts_.peer_event = GuardedFd(std::move(theirs), guard_);
  const std::array<int, 3> descriptors{parts_.segment.descriptor(), parts_.own_event.get(),
                                       parts_.peer_event.get()};
  DABKE_RETURN_IF_ERROR(send_descriptors(socket, offer(), descriptors));
  step_ = Step::taken;
  return false;
}

Result<bool> ShmAgreement::take_offer(int socket) {
  Offer bytes{};
  DABKE_ASSIGN_OR_RETURN(auto received, receive_descriptors(socket, bytes));
  if (received.bytes == 0) return false;
  if (received.bytes != bytes.size() || bytes != offer() || received.descriptors.size() != 3)
    return Status(Code::mismatch,
                  "it offered shared memory in another format; install the same Dabke everywhere");
  DABKE_ASSIGN_OR_RETURN(parts_.segment,
                         Segment::adopt(std::move(received.descriptors[0]), sizeof(ShmLinkMemory), guard_));
  parts_.peer_event = GuardedFd(std::move(received.descriptors[1]), guard_);
  parts_.own_event = GuardedFd(std::move(received.descriptors[2]), guard_);
  DABKE_RETURN_IF_ERROR(send_word(socket, kTakenWord));
  step_ = Step::taken;
  return false;
}

Result<bool> ShmAgreement::await_word(int socket) {
  std::byte word{};
  const ssize_t got = ::recv(socket, &word, 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got < 0) return system_error("the connection broke", errno);
  if (got == 0) return Status(Code::transport, "it refused the shared memory");
  if (word != (parts_.is_connector ? kAgreedWord : kTakenWord))
    return Status(Code::transport, "its answer to the offer of shared memory is not valid");
  if (!parts_.is_connector) DABKE_RETURN_IF_ERROR(send_word(socket, kAgreedWord));
  step_ = Step::agreed;
  return true;
}

Result<std::unique_ptr<links::Link>> ShmAgreement::take_link(GuardedFd socket, links::LinkPeer peer) {
  parts_.socket = std::move(socket);
  return ShmLink::make(std::move(parts_), std::move(peer), guard_);
}

}  // namespace dabke::shm

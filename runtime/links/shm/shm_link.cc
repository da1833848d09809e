#include "runtime/links/shm/shm_link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "runtime/links/shm/local_socket.h"

namespace dabke::shm {
namespace {

ShmLinkMemory& memory_of(Segment& segment) {
  return *reinterpret_cast<ShmLinkMemory*>(segment.bytes().data());
}

Status watch(int epoll, int fd) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.fd = fd}};
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? Status() : system_error("epoll_ctl", errno);
}

}  // namespace

Result<std::unique_ptr<links::Link>> ShmLink::make(ShmLinkParts parts, links::LinkPeer peer,
                                                   ForkGuard& guard) {
  if (parts.segment.bytes().size() != sizeof(ShmLinkMemory))
    return Status(Code::mismatch, "a segment of another size than a link's");
  parts.segment.close_descriptor();  // the memory stays while a process has it mapped
  std::unique_ptr<ShmLink> link(new ShmLink(std::move(parts), std::move(peer)));
  link->epoll_ = GuardedFd(Fd(::epoll_create1(EPOLL_CLOEXEC)), guard);
  if (!link->epoll_) return system_error("epoll_create1", errno);
  DABKE_RETURN_IF_ERROR(watch(link->epoll_.get(), link->own_event_.get()));
  DABKE_RETURN_IF_ERROR(watch(link->epoll_.get(), link->socket_.get()));
  return std::unique_ptr<links::Link>(std::move(link));
}

ShmLink::ShmLink(ShmLinkParts parts, links::LinkPeer peer)
    : segment_(std::move(parts.segment)),
      socket_(std::move(parts.socket)),
      own_event_(std::move(parts.own_event)),
      peer_event_(std::move(parts.peer_event)),
      peer_(std::move(peer)),
      out_(parts.is_connector ? memory_of(segment_).to_acceptor : memory_of(segment_).to_connector),
      in_(parts.is_connector ? memory_of(segment_).to_connector : memory_of(segment_).to_acceptor) {}

ShmLink::~ShmLink() { in_.abandon(); }

Status ShmLink::send(std::span<const std::byte> frame) {
  if (frame.size() > links::kMaxFrameBytes) {
    return {Code::invalid_argument, fmt::format("a message of {} bytes for rank {} is above the limit of {}",
                                                frame.size(), peer_.rank, links::kMaxFrameBytes)};
  }
  // A full ring may belong to a dead peer, which can no longer report its end.
  if (broken_.is_ok() && (out_.abandoned() || (!unsent_.empty() && socket_ended())))
    break_off("the peer closed its connection");
  DABKE_RETURN_IF_ERROR(broken_);
  const auto header = links::frame_header(frame.size());
  std::size_t head = 0, body = 0;
  if (unsent_.empty()) {
    DABKE_RETURN_IF_ERROR(write(header, head));
    if (head == header.size()) DABKE_RETURN_IF_ERROR(write(frame, body));
    if (head > 0) show_written();
  }
  unsent_.append(std::span(header).subspan(head));
  unsent_.append(frame.subspan(body));
  return {};
}

void ShmLink::flush() {
  if (unsent_.empty() || !broken_.is_ok()) return;
  std::size_t written = 0;
  if (!write(unsent_.readable(), written).is_ok() || written == 0) return;
  unsent_.consume(written);
  show_written();
}

Status ShmLink::write(std::span<const std::byte> bytes, std::size_t& written) {
  auto count = out_.write(bytes);
  if (count.is_ok()) {
    written = *count;
  } else {
    break_off(count.status().message());
  }
  return broken_;
}

void ShmLink::show_written() {
  out_.show();
  if (holds_wakes_) {
    held_wake_ = true;
  } else if (out_.reader_sleeps_on_it()) {
    wake_peer();
  }
}

void ShmLink::send_wakes() {
  holds_wakes_ = false;
  if (std::exchange(held_wake_, false) && out_.reader_sleeps_on_it()) wake_peer();
}

void ShmLink::wake_peer() {
  const std::uint64_t one = 1;
  if (::write(peer_event_.get(), &one, sizeof one) < 0) {
    // The counter is full. Then the eventfd is readable, and nothing is missed.
  }
}

// Leaves the loss to receive(), which finds it behind the last message.
void ShmLink::break_off(std::string why) {
  broken_ = Status(Code::peer_lost, "sending failed: " + std::move(why));
  unsent_.clear();
}

Result<links::Link::Received> ShmLink::receive(links::FrameSink& sink) {
  constexpr std::size_t kMostAtOnce = 1 << 20;
  std::size_t total = 0;
  while (total < kMostAtOnce) {
    DABKE_ASSIGN_OR_RETURN(const std::size_t count, in_.read(decoder_.writable()));
    if (count > 0) {
      // Gives the room back before it passes the frames on, so that the writer can fill it meanwhile.
      if (in_.publish()) wake_peer();
      decoder_.commit(count);
      DABKE_RETURN_IF_ERROR(decoder_.deliver(sink));
      total += count;
      continue;
    }
    const bool ended = in_.ended();
    if (!ended && !peer_gone_ && total > 0 && broken_.is_ok()) return Received::all;
    // Nothing came, so the descriptor was readable for another reason, which must be cleared.
    empty_event();
    if (!ended && !peer_gone_ && socket_ended()) continue;  // the peer's last bytes are visible now
    if (!ended && !peer_gone_ && broken_.is_ok()) return Received::all;
    end_reported_ = true;
    if (!ended)
      DABKE_RETURN_IF_ERROR(broken_);  // an orderly end counts, even if it came before our last message
    if (decoder_.mid_frame())
      return Status(Code::peer_lost, "the connection ended in the middle of a message");
    return Received::closed;
  }
  return Received::more;
}

bool ShmLink::socket_ended() {
  if (peer_gone_) return true;
  std::byte nothing{};
  ssize_t got = 0;
  // A byte here belongs to a descriptor on its way, which this must not take.
  do got = ::recv(socket_.get(), &nothing, 1, MSG_DONTWAIT | MSG_PEEK);
  while (got < 0 && errno == EINTR);
  peer_gone_ = got == 0 || (got < 0 && errno != EAGAIN);
  return peer_gone_;
}

void ShmLink::finish_sending() {
  if (out_.end()) wake_peer();
}

bool ShmLink::poll_ready() const {
  if (end_reported_) return !in_.empty();
  if (in_.ready() || !broken_.is_ok() || peer_gone_) return true;
  if (unsent_.empty()) return false;
  const auto room = out_.room();
  return !room.is_ok() || *room > 0 || out_.abandoned();
}

bool ShmLink::prepare_to_sleep() {
  if (poll_ready()) return false;
  in_.declare_sleeping();
  sleeps_ = true;
  if (!unsent_.empty()) {
    out_.declare_waiting();
    waits_ = true;
  }
  if (!poll_ready()) return true;
  woken();
  return false;
}

void ShmLink::woken() {
  if (sleeps_ && in_.was_woken()) ++owed_;
  if (waits_ && out_.was_woken()) ++owed_;
  sleeps_ = waits_ = false;
  if (owed_ > 0) empty_event();
}

// A peer that has seen our declared sleep writes to the eventfd, but perhaps a little later. Until then the
// write is owed.
void ShmLink::empty_event() {
  std::uint64_t count = 0;
  if (::read(own_event_.get(), &count, sizeof count) > 0) owed_ -= count < owed_ ? count : owed_;
}

Status ShmLink::pass_descriptor(int fd) {
  const std::byte word{1};
  return send_descriptors(socket_.get(), std::span(&word, 1), std::span(&fd, 1));
}

Result<Fd> ShmLink::take_descriptor(TimePoint deadline) {
  for (;;) {
    std::byte word{};
    DABKE_ASSIGN_OR_RETURN(auto received, receive_descriptors(socket_.get(), std::span(&word, 1)));
    if (received.descriptors.size() == 1) return std::move(received.descriptors[0]);
    if (received.bytes != 0) return Status(Code::transport, "expected a descriptor, got something else");
    const TimePoint now = Clock::now();
    if (now >= deadline) return Status(Code::timeout, "no descriptor arrived in time");
    pollfd entry{socket_.get(), POLLIN, 0};
    (void)::poll(&entry, 1, poll_timeout_ms(deadline, now));
  }
}

}  // namespace dabke::shm

#include "ops/tcp/tcp_mesh.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "runtime/links/little_endian.h"
#include "runtime/links/network.h"
#include "runtime/links/setup/link_setup.h"

namespace dabke::ops {
namespace {

/// Returns the ranks that are 2^k away, in both directions.
std::set<int> linked_places(int own, int size) {
  std::set<int> set_ranks;
  for (int distance = 1; distance < size; distance *= 2) {
    set_ranks.insert((own + distance) % size);
    set_ranks.insert((own + size - distance) % size);
  }
  return set_ranks;
}

std::string text_of(int errno_value) { return std::generic_category().message(errno_value); }

}  // namespace

Result<std::unique_ptr<TcpInterrupt>> TcpInterrupt::open(ForkGuard& guard) {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return system_error("eventfd", errno);
  return std::unique_ptr<TcpInterrupt>(new TcpInterrupt(GuardedFd(std::move(fd), guard)));
}

void TcpInterrupt::abort(const Status& cause) {
  if (!latch_.abort(cause)) return;
  const std::uint64_t one = 1;
  // The write cannot fail: the counter is far from full.
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

int TcpMessage::vectors(std::array<iovec, 3>& out) {
  std::size_t done = kHeadBytes + body_bytes() - left_;
  int count = 0;
  for (const std::span<std::byte> part : {std::span<std::byte>(head_), parts_[0], parts_[1]}) {
    const std::size_t skipped = std::min(done, part.size());
    done -= skipped;
    if (skipped == part.size()) continue;
    out[static_cast<std::size_t>(count++)] = {part.data() + skipped, part.size() - skipped};
  }
  return count;
}

Result<std::unique_ptr<TcpMesh>> TcpMesh::open(const BackendContext& context, const ProcessSetInfo& set,
                                               std::string prefix, TcpInterrupt& interrupt) {
  std::unique_ptr<TcpMesh> mesh(new TcpMesh(interrupt, context.config.peer_timeout));
  for (const Rank rank : set.ranks) mesh->names_.push_back(context.world.name_of(rank));
  const std::set<int> set_ranks = linked_places(set.rank, set.size());
  std::vector<Rank> ranks;
  for (const int set_rank : set_ranks) ranks.push_back(set.ranks[static_cast<std::size_t>(set_rank)]);
  DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::listening_address(context.world));
  const auto aborted = [&interrupt] { return interrupt.aborted(); };
  DABKE_ASSIGN_OR_RETURN(auto links,
                         links::open_links({.world = context.world,
                                            .neighbours = ranks,
                                            .listen_at = address,
                                            .store = context.store,
                                            .guard = context.fork_guard,
                                            .log = context.log,
                                            .deadline = deadline_after(context.config.start_timeout),
                                            .prefix = std::move(prefix),
                                            .aborted = aborted}));
  auto link = links.begin();
  for (const int set_rank : set_ranks) {
    links::keep_alive((*link)->descriptor(), seconds_to_duration(context.config.peer_timeout));
    mesh->mesh_[set_rank].link = std::move(*link++);
  }
  return mesh;
}

void TcpMesh::write_head(TcpMessage& message) const {
  links::store_le(mark_.order, message.head_.data());
  links::store_le(mark_.contents, message.head_.data() + 8);
  links::store_le(static_cast<std::uint64_t>(message.body_bytes()), message.head_.data() + 16);
}

Status TcpMesh::check_head(const TcpMessage& message) const {
  const BatchMark theirs{links::load_le<std::uint64_t>(message.head_.data()),
                         links::load_le<std::uint64_t>(message.head_.data() + 8)};
  const auto bytes = links::load_le<std::uint64_t>(message.head_.data() + 16);
  const std::string& name = names_[static_cast<std::size_t>(message.set_rank())];
  if (theirs != mark_) return batches_differ(name, theirs, mark_);
  if (bytes == message.body_bytes()) return {};
  return {Code::internal,
          fmt::format("{} sent a message of {} bytes of order {}, but {} bytes were expected: the ranks are "
                      "out of step; this is a defect of Dabke: please report it",
                      name, bytes, mark_.order, message.body_bytes())};
}

Result<bool> TcpMesh::advance(TcpMessage& out, TcpMessage& in) {
  if (interrupt_.is_aborted()) return interrupt_.aborted();
  bool moved = false;
  if (!out.is_over()) {
    DABKE_ASSIGN_OR_RETURN(moved, send_some(out));
  }
  if (in.is_over()) return moved;
  DABKE_ASSIGN_OR_RETURN(const bool received, receive_some(in));
  return moved || received;
}

Result<bool> TcpMesh::send_some(TcpMessage& message) {
  std::array<iovec, 3> parts;
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = static_cast<std::size_t>(message.vectors(parts));
  const ssize_t sent = ::sendmsg(link(message.set_rank()).descriptor(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (sent < 0) return broken(message.set_rank(), errno);
  message.left_ -= static_cast<std::size_t>(sent);
  return true;
}

Result<bool> TcpMesh::receive_some(TcpMessage& message) {
  std::array<iovec, 3> parts;
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = static_cast<std::size_t>(message.vectors(parts));
  const ssize_t got = ::recvmsg(link(message.set_rank()).descriptor(), &header, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got < 0) return broken(message.set_rank(), errno);
  if (got == 0) return broken(message.set_rank(), 0);
  const bool had_head = message.left_ <= message.body_bytes();
  message.left_ -= static_cast<std::size_t>(got);
  if (!had_head && message.left_ <= message.body_bytes()) DABKE_RETURN_IF_ERROR(check_head(message));
  return true;
}

Status TcpMesh::sleep(const TcpMessage& out, const TcpMessage& in) {
  std::array<pollfd, 3> waits{{{interrupt_.descriptor(), POLLIN, 0}}};
  nfds_t count = 1;
  if (!in.is_over()) waits[count++] = {link(in.set_rank()).descriptor(), POLLIN, 0};
  if (!out.is_over()) waits[count++] = {link(out.set_rank()).descriptor(), POLLOUT, 0};
  const TimePoint now = Clock::now();
  if (now >= deadline_) {
    return {Code::timeout,
            fmt::format("not finished within its limit; {} is late, stopped or gone",
                        names_[static_cast<std::size_t>(in.is_over() ? out.set_rank() : in.set_rank())])};
  }
  const Duration limit = seconds_to_duration(peer_timeout_);
  const TimePoint look = limit > Duration::zero() ? now + links::look_interval(limit) : kNever;
  const int events = ::poll(waits.data(), count, poll_timeout_ms(std::min(deadline_, look), now));
  if (events < 0 && errno != EINTR) return system_error("poll", errno);
  if (events != 0 || look == kNever) return {};
  if (!out.is_over()) DABKE_RETURN_IF_ERROR(check_silence(out.set_rank()));
  return in.is_over() ? Status() : check_silence(in.set_rank());
}

Status TcpMesh::check_silence(int set_rank) {
  Wire& wire = mesh_.at(set_rank);
  const Duration silence = wire.silence.silent_for(wire.link->descriptor(), Clock::now());
  if (silence < seconds_to_duration(peer_timeout_)) return {};
  return links::lost_in_silence(names_[static_cast<std::size_t>(set_rank)], peer_timeout_);
}

/// `errno_value` 0 means that the peer closed the connection.
Status TcpMesh::broken(int set_rank, int errno_value) const {
  const std::string& name = names_[static_cast<std::size_t>(set_rank)];
  if (links::is_silence(errno_value)) return links::lost_in_silence(name, peer_timeout_);
  return links::connection_broke(name, errno_value == 0 ? "it closed the connection" : text_of(errno_value));
}

}  // namespace dabke::ops

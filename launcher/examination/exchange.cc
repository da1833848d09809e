#include "launcher/examination/exchange.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <list>
#include <optional>

#include <fmt/format.h>

#include "runtime/base/threads/thread.h"
#include "runtime/links/handshake_io.h"
#include "runtime/links/tcp_link.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

constexpr int kPings = 20;
constexpr std::size_t kChunk = std::size_t{256} << 10;
constexpr std::size_t kMostVisitors = 256;
/// The time in which a visitor must prove itself, and then the limit for each further byte.
constexpr Duration kVisitorLimit = 10s;

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// A host that has connected.
class Visitor {
 public:
  Visitor(Fd fd, links::Handshake handshake) : fd_(std::move(fd)), handshake_(std::move(handshake)) {}

  pollfd entry() const {
    return {fd_.get(), static_cast<short>(handshake_.outgoing().empty() ? POLLIN : POLLIN | POLLOUT), 0};
  }
  TimePoint deadline() const { return deadline_; }
  /// False once the visitor is finished.
  bool turn(std::vector<char>& chunk) {
    if (!is_proved()) {
      if (!links::converse_over(fd_.get(), handshake_).ended.is_ok()) return false;
      if (!is_proved()) return true;
      deadline_ = Clock::now() + kVisitorLimit;
    }
    const ssize_t got = ::recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    deadline_ = Clock::now() + kVisitorLimit;
    if (got == 0) {
      answer();
      return false;
    }
    for (ssize_t i = 0; i < got && pings_ < kPings; ++i, ++pings_)
      (void)!::send(fd_.get(), chunk.data(), 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    received_ += static_cast<std::uint64_t>(got);
    return true;
  }

 private:
  bool is_proved() const { return handshake_.done() && handshake_.outgoing().empty(); }
  void answer() const {
    std::array<unsigned char, 8> count;
    for (std::size_t i = 0; i < count.size(); ++i)
      count[i] = static_cast<unsigned char>(received_ >> (8 * i));
    (void)!::send(fd_.get(), count.data(), count.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  Fd fd_;
  links::Handshake handshake_;
  TimePoint deadline_ = Clock::now() + kVisitorLimit;
  int pings_ = 0;
  std::uint64_t received_ = 0;
};

Status late(std::string_view what) { return {Code::timeout, fmt::format("{} did not arrive in time", what)}; }

/// Waits for `events` of the socket.
Status wait_for(int fd, short events, TimePoint limit, std::string_view what) {
  pollfd entry{fd, events, 0};
  while (Clock::now() < limit) {
    if (::poll(&entry, 1, poll_timeout_ms(limit)) > 0) return {};
  }
  return late(what);
}

Result<Fd> connect_and_prove(const links::Handshake::Self& self, const MeasureMessage& order,
                             TimePoint limit) {
  DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::SocketAddress::parse(order.address));
  DABKE_ASSIGN_OR_RETURN(Fd fd, links::tcp_connect(address));
  DABKE_RETURN_IF_ERROR(wait_for(fd.get(), POLLOUT, limit, "the connection"));
  DABKE_RETURN_IF_ERROR(links::tcp_connected(fd.get()));
  DABKE_ASSIGN_OR_RETURN(links::Handshake handshake, links::Handshake::connect(self, order.number));
  send_at_once(fd.get());
  for (;;) {
    DABKE_RETURN_IF_ERROR(links::converse_over(fd.get(), handshake).ended);
    if (handshake.done() && handshake.outgoing().empty()) return fd;
    const auto events = static_cast<short>(handshake.outgoing().empty() ? POLLIN : POLLIN | POLLOUT);
    DABKE_RETURN_IF_ERROR(wait_for(fd.get(), events, limit, "the other side's proof"));
  }
}

Status read_exactly(int fd, unsigned char* to, std::size_t size, TimePoint limit) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::recv(fd, to + at, size - at, MSG_DONTWAIT);
    if (got > 0) {
      at += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return {Code::peer_lost, "the other side has closed the connection"};
    } else if (errno == EAGAIN || errno == EINTR) {
      DABKE_RETURN_IF_ERROR(wait_for(fd, POLLIN, limit, "the answer"));
    } else {
      return system_error("the connection was lost", errno);
    }
  }
  return {};
}

Result<Duration> shortest_round_trip(int fd, TimePoint limit) {
  Duration shortest = Duration::max();
  for (int i = 0; i < kPings; ++i) {
    unsigned char byte = 0;
    const TimePoint begin = Clock::now();
    if (::send(fd, &byte, 1, MSG_NOSIGNAL) != 1) return system_error("the connection was lost", errno);
    DABKE_RETURN_IF_ERROR(read_exactly(fd, &byte, 1, limit));
    shortest = std::min(shortest, Clock::now() - begin);
  }
  return shortest;
}

/// Returns the bytes a second that have arrived. Sends at least once, even if this process stood still for
/// the whole time.
Result<std::int64_t> bandwidth(int fd, Duration duration, TimePoint limit) {
  const std::vector<char> chunk(kChunk);
  const TimePoint begin = Clock::now();
  const TimePoint until = std::min(begin + duration, limit);
  do {
    const ssize_t sent = ::send(fd, chunk.data(), chunk.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return system_error("the connection was lost", errno);
    pollfd entry{fd, POLLOUT, 0};
    ::poll(&entry, 1, poll_timeout_ms(until));
  } while (Clock::now() < until);
  ::shutdown(fd, SHUT_WR);
  std::array<unsigned char, 8> answer;
  DABKE_RETURN_IF_ERROR(read_exactly(fd, answer.data(), answer.size(), limit));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::uint64_t arrived = 0;
  for (std::size_t i = 0; i < answer.size(); ++i) arrived |= static_cast<std::uint64_t>(answer[i]) << (8 * i);
  return static_cast<std::int64_t>(static_cast<double>(arrived) / seconds);
}

Status try_to_measure(const links::Handshake::Self& self, const MeasureMessage& order,
                      MeasuredMessage& measured) {
  const TimePoint limit = Clock::now() + std::chrono::milliseconds(order.wait_limit_ms);
  DABKE_ASSIGN_OR_RETURN(const Fd fd, connect_and_prove(self, order, limit));
  DABKE_ASSIGN_OR_RETURN(const Duration trip, shortest_round_trip(fd.get(), limit));
  measured.round_trip_ns = std::chrono::nanoseconds(trip).count();
  DABKE_ASSIGN_OR_RETURN(measured.bytes_per_s,
                         bandwidth(fd.get(), std::chrono::milliseconds(order.duration_ms), limit));
  return {};
}

}  // namespace

Result<std::unique_ptr<ExchangeListener>> ExchangeListener::open(
    const links::Handshake::Self& self, std::span<const links::SocketAddress> addresses) {
  std::unique_ptr<ExchangeListener> made(new ExchangeListener(self));
  made->end_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->end_) return system_error("eventfd", errno);
  Status last(Code::transport, "this host has no address at which other hosts could reach it");
  for (const links::SocketAddress& address : addresses) {
    auto listener = links::tcp_listen(address);
    const auto bound = listener.is_ok() ? links::SocketAddress::local_of(listener->get())
                                        : Result<links::SocketAddress>(listener.status());
    if (!bound.is_ok()) {
      last = bound.status();
      made->troubles_.push_back(last.message());
      continue;
    }
    made->addresses_.push_back(bound->to_string());
    made->listeners_.push_back(listener.take());
  }
  if (made->listeners_.empty()) return last;
  DABKE_ASSIGN_OR_RETURN(made->thread_,
                         start_thread("dabke-exchange", [served = made.get()] { served->serve(); }));
  return made;
}

ExchangeListener::~ExchangeListener() {
  const std::uint64_t one = 1;
  if (thread_.joinable()) (void)!::write(end_.get(), &one, sizeof one);
}

void ExchangeListener::serve() {
  std::list<Visitor> visitors;
  std::vector<char> chunk(kChunk);
  for (;;) {
    std::vector<pollfd> entries{{end_.get(), POLLIN, 0}};
    for (const Fd& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
    TimePoint next = kNever;
    for (const Visitor& visitor : visitors) {
      entries.push_back(visitor.entry());
      next = std::min(next, visitor.deadline());
    }
    (void)::poll(entries.data(), entries.size(), poll_timeout_ms(next));
    if (entries[0].revents != 0) return;
    auto entry = entries.begin() + 1 + static_cast<std::ptrdiff_t>(listeners_.size());
    const TimePoint now = Clock::now();
    visitors.remove_if([&](Visitor& visitor) {
      const bool is_awaited = (entry++)->revents != 0;
      return (is_awaited && !visitor.turn(chunk)) || now >= visitor.deadline();
    });
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (entries[i + 1].revents == 0) continue;
      for (auto fd = links::tcp_accept(listeners_[i].get()); fd.is_ok() && *fd;
           fd = links::tcp_accept(listeners_[i].get())) {
        send_at_once(fd->get());
        auto handshake = links::Handshake::accept(self_, [](Rank) { return true; });
        if (!handshake.is_ok()) continue;
        if (visitors.size() == kMostVisitors) visitors.pop_front();  // the oldest visitor makes room
        visitors.emplace_back(fd.take(), handshake.take());
      }
    }
  }
}

MeasuredMessage measure(const links::Handshake::Self& self, const MeasureMessage& order) {
  MeasuredMessage measured;
  if (const Status status = try_to_measure(self, order, measured); !status.is_ok())
    measured.trouble = status.message();
  return measured;
}

}  // namespace dabke::launcher

#include "runtime/links/tcp_liveness.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "runtime/links/network.h"

namespace dabke::links {
namespace {

using std::chrono::seconds;

/// Only tunes: without the option a vanished host is noticed later.
void set(int fd, int level, int option, int value) {
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

void keep_alive(int fd, Duration timeout) {
  const auto remote = SocketAddress::remote_of(fd), local = SocketAddress::local_of(fd);
  if (timeout <= Duration::zero() || !remote.is_ok() || !local.is_ok() || remote->has_host_of(*local)) return;
  // Probes begin after a third of the time. At least four fit into the rest, or one a second if it is short.
  constexpr int kLongestIdle = 32767;  // the kernel's limit
  const auto whole = std::max<std::int64_t>(3, std::chrono::ceil<seconds>(timeout).count());
  const int limit = static_cast<int>(std::min<std::int64_t>(whole, kLongestIdle));
  const int idle = limit / 3;
  const int interval = std::max(1, (limit - idle) / 4);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, (limit - idle) / interval);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

Duration look_interval(Duration timeout) {
  return std::clamp<Duration>(timeout / 4, std::chrono::milliseconds(10), seconds(1));
}

Duration TcpSilence::silent_for(int fd, TimePoint now) {
  tcp_info info{};
  socklen_t length = sizeof info;
  const bool known = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
  // The other end owes an answer: to bytes on their way, or to a probe for room or for life.
  const bool owes = known && (info.tcpi_unacked != 0 || info.tcpi_probes != 0);
  return observe(owes, std::chrono::milliseconds(info.tcpi_last_ack_recv), now);
}

Duration TcpSilence::observe(bool owes, Duration since_answer, TimePoint now) {
  constexpr Duration kKernelTick = std::chrono::milliseconds(10);  // the kernel rounds times to its ticks
  const bool answered = checked_at_ != kNever && now - since_answer > checked_at_ - kKernelTick;
  checked_at_ = now;
  if (!owes) {
    owed_since_ = kNever;
  } else if (owed_since_ == kNever || answered) {
    owed_since_ = now;
  }
  return last_ = owes ? now - owed_since_ : Duration::zero();
}

bool is_over(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_CLOSE;
}

bool is_silence(int errno_value) {
  return errno_value == ETIMEDOUT || errno_value == EHOSTUNREACH || errno_value == ENETUNREACH;
}

Status lost_in_silence(const std::string& peer, double timeout_seconds) {
  const std::string how_long =
      timeout_seconds > 0
          ? fmt::format("nothing received for {} s (DABKE_PEER_TIMEOUT_SECONDS)", timeout_seconds)
          : "nothing received within the system's time limit";
  return {Code::peer_lost, fmt::format("lost {}: {} on the connection for data; its host, or the network "
                                       "between the two, is down",
                                       peer, how_long)};
}

Status connection_broke(const std::string& peer, const std::string& why) {
  return {Code::transport, fmt::format("lost the connection to {}: {}", peer, why)};
}

}  // namespace dabke::links

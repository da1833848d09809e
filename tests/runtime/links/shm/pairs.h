// Two ends of a link of either kind, in one process.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/links/shm/shm_agreement.h"
#include "runtime/links/tcp_link.h"
#include "tests/runtime/links/ranks.h"

namespace dabke::test {

struct Pair {
  ForkGuard guard;
  std::unique_ptr<links::Link> a, b;
};

/// Returns null if there is no shared memory.
inline std::unique_ptr<Pair> shm_pair() {
  auto pair = std::make_unique<Pair>();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return nullptr;
  GuardedFd a(Fd{ends[0]}, pair->guard), b(Fd{ends[1]}, pair->guard);
  shm::ShmAgreement offers(false, pair->guard), takes(true, pair->guard);
  for (int turn = 0; turn < 3; ++turn) {
    if (!offers.advance(a.get()).is_ok() || !takes.advance(b.get()).is_ok()) return nullptr;
  }
  pair->a = offers.take_link(std::move(a), links::LinkPeer{.rank = 1}).take();
  pair->b = takes.take_link(std::move(b), links::LinkPeer{.rank = 0}).take();
  return pair;
}

inline std::unique_ptr<Pair> tcp_pair() {
  auto pair = std::make_unique<Pair>();
  const Fd listener = links::tcp_listen(links::SocketAddress::parse("127.0.0.1:0").take()).take();
  Fd client = links::tcp_connect(links::SocketAddress::local_of(listener.get()).take()).take();
  pollfd waiting{listener.get(), POLLIN, 0};
  if (::poll(&waiting, 1, 60'000) != 1) return nullptr;
  Fd server = links::tcp_accept(listener.get()).take();
  pair->a = std::make_unique<links::TcpLink>(GuardedFd(std::move(client), pair->guard),
                                             links::LinkPeer{.rank = 1}, Duration::zero());
  pair->b = std::make_unique<links::TcpLink>(GuardedFd(std::move(server), pair->guard),
                                             links::LinkPeer{.rank = 0}, Duration::zero());
  return pair;
}

class Collected final : public links::FrameSink {
 public:
  void on_frame(std::span<const std::byte> frame) override { frames.push_back(text_of(frame)); }
  std::vector<std::string> frames;
};

/// Moves bytes until `link` has nothing to receive for a while. Returns how it ended.
inline std::string drain(links::Link& link, links::FrameSink& sink, links::Link* sender = nullptr) {
  const auto deadline = deadline_after(60);
  while (true) {
    if (sender != nullptr) sender->flush();
    if (link.prepare_to_sleep()) {
      const bool goes_on = sender != nullptr && sender->wants_write() && Clock::now() < deadline;
      pollfd waiting{link.descriptor(), POLLIN, 0};
      const bool quiet = ::poll(&waiting, 1, goes_on ? 10 : 1000) == 0;
      link.woken();
      if (quiet && !goes_on) return "open";
    }
    const auto received = link.receive(sink);
    if (!received.is_ok()) return received.status().message();
    if (*received == links::Link::Received::closed) return "closed";
  }
}

}  // namespace dabke::test

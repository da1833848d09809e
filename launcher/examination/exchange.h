// A short exchange between two hosts over a TCP connection on which both have proved themselves (handshake.h): how long a
// byte takes there and back, and how many bytes arrive in a while.
//
// 1. The one that connects sends a byte, kPings times; each comes back before the next.
// 2. It sends for a while, and then says that no more comes. The other side throws it away, and answers with how much it
//    was, in eight bytes, little-endian.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "launcher/agent_protocol/protocol.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"
#include "runtime/links/handshake.h"
#include "runtime/links/network.h"

namespace dabke::launcher {

/// Answers whoever tries this host's addresses (runtime/links/address_trials.h) or exchanges with it, as long as it lives, on
/// a thread of its own.
class ExchangeListener {
 public:
  /// One free port on each address. An error where none can be listened on; where some cannot, troubles() says why.
  static Result<std::unique_ptr<ExchangeListener>> open(const links::Handshake::Self& self,
                                                        std::span<const links::SocketAddress> addresses);
  ~ExchangeListener();
  ExchangeListener(const ExchangeListener&) = delete;
  ExchangeListener& operator=(const ExchangeListener&) = delete;

  const std::vector<std::string>& addresses() const { return addresses_; }
  const std::vector<std::string>& troubles() const { return troubles_; }

 private:
  explicit ExchangeListener(const links::Handshake::Self& self) : self_(self) {}
  void serve();

  const links::Handshake::Self self_;
  std::vector<std::string> addresses_, troubles_;
  std::vector<Fd> listeners_;
  Fd end_;
  std::jthread thread_;
};

/// Blocks for the message's wait limit at most.
MeasuredMessage measure(const links::Handshake::Self& self, const MeasureMessage& order);

}  // namespace dabke::launcher

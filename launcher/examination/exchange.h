// A short exchange between two hosts, over a TCP connection on which both have proved themselves
// (handshake.h). It measures the round trip of a byte, and how many bytes arrive in a given time.
//
// 1. The connecting side sends a byte, kPings times; each comes back before the next is sent.
// 2. It sends data for a while, and then shuts down its sending direction. The other side discards the data,
//    and answers with the number of bytes, in eight bytes, little-endian.
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

/// Answers hosts that try this host's addresses (runtime/links/address_trials.h) or exchange with it, during
/// its lifetime, on a thread of its own.
class ExchangeListener {
 public:
  /// Listens at one free port on each address. Fails if none can be used; troubles() lists the reasons for
  /// each that cannot.
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

// Finds the addresses that lead to other hosts. A trial succeeds if the other side proves that it has the
// job's key and the expected rank (handshake.h). An address that this host has too, such as that of a bridge
// for containers, leads to this host itself, and fails.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"
#include "runtime/links/handshake.h"
#include "runtime/links/network.h"

namespace dabke::links {

/// Answers clients that try this host's addresses, as long as it lives, on a thread of its own.
class TrialListener {
 public:
  /// Opens a free port on each address. An address on which it cannot listen is left out.
  static Result<std::unique_ptr<TrialListener>> open(const Handshake::Self& self,
                                                     std::span<const SocketAddress> addresses);
  ~TrialListener();
  TrialListener(const TrialListener&) = delete;
  TrialListener& operator=(const TrialListener&) = delete;

  /// In the order of the addresses; port 0 for one that was left out.
  const std::vector<SocketAddress>& listens_at() const { return listens_at_; }

 private:
  explicit TrialListener(const Handshake::Self& self) : self_(self) {}
  void serve();

  const Handshake::Self self_;
  std::vector<SocketAddress> listens_at_;
  std::vector<Fd> listeners_;
  Fd end_;
  std::jthread thread_;
};

/// An address of another host's leader.
struct Trial {
  enum class Outcome { none, reached, failed };

  Rank rank = 0;
  SocketAddress address;
  Outcome outcome = Outcome::none;
  std::string trouble = "no answer";
};

/// Tries all addresses at once. Once one address of a rank is reached, its late addresses get a moment more.
/// If none is reached, all are tried again until the deadline. `trouble` is called a few times a second, and
/// its error ends the trials.
Status try_addresses(
    const Handshake::Self& self, std::span<Trial> trials, TimePoint deadline,
    const std::function<Status()>& trouble = [] { return Status(); });

}  // namespace dabke::links

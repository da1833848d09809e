// Which addresses of other hosts are theirs, and lead there: a trial counts when the other side proves the job's key
// and the rank that it should have (handshake.h). An address that is also one of this host's, as that of a bridge for
// containers is on every host, leads to this host itself, and fails.
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

/// Answers whoever tries this host's addresses, as long as it lives, on a thread of its own.
class TrialListener {
 public:
  /// One free port on each address. An address that cannot be listened on is left out.
  static Result<std::unique_ptr<TrialListener>> open(const Handshake::Self& self,
                                                     std::span<const SocketAddress> addresses);
  ~TrialListener();
  TrialListener(const TrialListener&) = delete;
  TrialListener& operator=(const TrialListener&) = delete;

  /// By the order of the addresses; with port 0 where it was left out.
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

/// Tries all at once. Of each rank, the addresses that are late get a moment more once another one has been reached,
/// and where none has, all are tried again until the deadline. `trouble` is asked a few times a second, and ends it.
Status try_addresses(
    const Handshake::Self& self, std::span<Trial> trials, TimePoint deadline,
    const std::function<Status()>& trouble = [] { return Status(); });

}  // namespace dabke::links

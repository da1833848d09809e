// A control channel between threads of one process: queues replace sockets. For tests, and for
// ThreadSanitizer, which then sees every transfer between ranks.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/control/control_channel.h"

namespace dabke::test {

/// Connects the ranks of one job, as a star around rank 0. The channels keep it alive.
class SimNetwork : public std::enable_shared_from_this<SimNetwork> {
 public:
  explicit SimNetwork(int size) : mailboxes_(static_cast<std::size_t>(size)) {}

  std::unique_ptr<control::ControlChannel> open(int rank);

 private:
  friend class SimChannel;
  struct Letter {
    int from;
    std::optional<std::vector<std::byte>> message;  // nothing: `from` is gone
  };
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Letter> letters;
    bool woken = false;
    bool closed = false;
  };

  Mailbox& mailbox(int rank) { return mailboxes_[static_cast<std::size_t>(rank)]; }
  void put(int to, Letter letter);

  std::deque<Mailbox> mailboxes_;
};

}  // namespace dabke::test

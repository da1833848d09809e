// The links of one process set, and the transfer of messages of known length over them.
//
// Ranks whose set ranks are 2^k apart (modulo the size of the set) are linked; tcp_collectives.h needs no
// other pair. The order of collectives, which is equal on all ranks, determines the messages on each link.
// Each message has a head of 24 bytes, with its batch's mark and its length. The head only detects ranks that
// are out of step, which would otherwise get wrong sums. Sockets are read directly into the memory that was
// posted for the message.
#pragma once

#include <sys/uio.h>

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/base/threads/abort_latch.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/links/link.h"
#include "runtime/links/shm/waiting.h"
#include "runtime/links/tcp_liveness.h"

namespace dabke::ops {

/// Wakes the thread that waits for a message, once and for good. From any thread.
class TcpInterrupt {
 public:
  static Result<std::unique_ptr<TcpInterrupt>> open(ForkGuard& guard);
  /// The first cause stays.
  void abort(const Status& cause);
  bool is_aborted() const { return latch_.is_aborted(); }
  const Status& aborted() const { return latch_.aborted(); }
  /// Readable from abort() on.
  int descriptor() const { return event_.get(); }

 private:
  explicit TcpInterrupt(GuardedFd event) : event_(std::move(event)) {}

  GuardedFd event_;
  AbortLatch latch_;
};

/// A message on its way: its head, then up to two stretches of memory.
class TcpMessage {
 public:
  static constexpr std::size_t kHeadBytes = 24;
  static constexpr int kNobody = -1;

  TcpMessage() = default;  // nothing, to nobody
  TcpMessage(int set_rank, std::span<std::byte> first, std::span<std::byte> second = {})
      : place_(set_rank), parts_{first, second}, left_(kHeadBytes + first.size() + second.size()) {}
  /// A message to send: the memory is only read.
  TcpMessage(int set_rank, std::span<const std::byte> first, std::span<const std::byte> second = {})
      : TcpMessage(set_rank, writable(first), writable(second)) {}

  int set_rank() const { return place_; }
  bool is_over() const { return left_ == 0; }
  std::size_t body_bytes() const { return parts_[0].size() + parts_[1].size(); }
  /// Returns the number of bytes of the body that have moved.
  std::size_t moved() const { return body_bytes() - std::min(left_, body_bytes()); }

 private:
  friend class TcpMesh;
  static std::span<std::byte> writable(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  /// Fills in the remaining parts, in the form that the kernel takes.
  int vectors(std::array<iovec, 3>& out);

  int place_ = kNobody;
  std::array<std::span<std::byte>, 2> parts_;
  std::array<std::byte, kHeadBytes> head_{};
  std::size_t left_ = 0;
};

class TcpMesh {
 public:
  /// Collective over the set. `prefix` separates its addresses in the store from all others.
  static Result<std::unique_ptr<TcpMesh>> open(const BackendContext& context, const ProcessSetInfo& set,
                                               std::string prefix, TcpInterrupt& interrupt);

  /// Begins a batch: the messages that follow belong to it, and fail at the deadline.
  void begin(const BatchMark& mark, TimePoint deadline) {
    mark_ = mark;
    deadline_ = deadline;
  }
  /// Sends one message and receives another at the same time; either may be empty. `progress(sent, received)`
  /// gets the bytes of the bodies. It is called whenever some have moved, and at the end.
  template <class Progress>
  Status transfer(TcpMessage& out, TcpMessage& in, Progress progress) {
    if (out.left_ != 0) write_head(out);
    shm::Waiting wait(habits_[in.is_over() ? out.place_ : in.place_]);
    while (!out.is_over() || !in.is_over()) {
      DABKE_ASSIGN_OR_RETURN(const bool moved, advance(out, in));
      if (moved) {
        progress(out.moved(), in.moved());
        wait.restart();
      } else if (!wait.again()) {
        DABKE_RETURN_IF_ERROR(sleep(out, in));
        wait.restart();
      }
    }
    return {};
  }
  Status transfer(TcpMessage out, TcpMessage in) {
    return transfer(out, in, [](std::size_t, std::size_t) {});
  }

 private:
  struct Wire {
    std::unique_ptr<links::Link> link;
    links::TcpSilence silence;
  };

  TcpMesh(TcpInterrupt& interrupt, double peer_timeout)
      : interrupt_(interrupt), peer_timeout_(peer_timeout) {}

  void write_head(TcpMessage& message) const;
  Status check_head(const TcpMessage& message) const;
  /// True if something moved.
  Result<bool> advance(TcpMessage& out, TcpMessage& in);
  Result<bool> send_some(TcpMessage& message);
  Result<bool> receive_some(TcpMessage& message);
  Status sleep(const TcpMessage& out, const TcpMessage& in);
  Status check_silence(int set_rank);
  links::Link& link(int set_rank) const { return *mesh_.at(set_rank).link; }
  Status broken(int set_rank, int errno_value) const;

  TcpInterrupt& interrupt_;
  const double peer_timeout_;                // seconds; 0: no limit
  std::map<int, Wire> mesh_;                 // by set rank
  std::map<int, shm::WaitingHabit> habits_;  // by set rank: a rank on this core sends nothing while we spin
  std::vector<std::string> names_;           // by set rank: "rank 3 on b"
  BatchMark mark_;
  TimePoint deadline_ = kNever;
};

}  // namespace dabke::ops

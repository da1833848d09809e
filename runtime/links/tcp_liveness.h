// Finds out whether the host at the other end of a connection that carries data is still there.
//
// The kernel's own limit (TCP_USER_TIMEOUT) does not fit. It also breaks a connection whose peer answers but
// reads nothing for long, because it is stopped, or still busy with earlier work. So:
//   1. keep_alive() makes the kernel probe the other host now and then while nothing moves. Without an answer
//      the kernel breaks the connection.
//   2. A thread that waits for a connection calls silent_for() now and then, which checks for sent bytes that
//      have not been acknowledged.
// Neither has an effect between processes of one host.
#pragma once

#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke::links {

/// Breaks the connection (ETIMEDOUT) if nothing moves and the other end's host has been silent for about
/// `timeout`, in whole seconds. Zero: never.
void keep_alive(int fd, Duration timeout);

/// The interval at which a thread that waits for a connection should call silent_for().
Duration look_interval(Duration timeout);

/// The state of one connection from one check to the next.
class TcpSilence {
 public:
  /// The time for which the other end's host has not answered anything; zero while it owes no answer.
  Duration silent_for(int fd, TimePoint now);
  /// The same, from the state that the kernel shows: whether an answer is owed, and the time since the
  /// last answer, which may be hours if the connection was idle. An answer between two checks ends the
  /// silence, although another answer may be owed at both.
  Duration observe(bool owes, Duration since_answer, TimePoint now);
  /// The result of the last check. More than zero only if the host was silent from one check to the next.
  Duration last() const { return last_; }

 private:
  TimePoint checked_at_ = kNever;
  TimePoint owed_since_ = kNever;  // the first check since which the same answer has been owed
  Duration last_{};
};

/// True if the connection has ended, at either end: nothing more can come.
bool is_over(int fd);

/// True for the errors of a connection whose other end's host has not answered or cannot be reached any more.
bool is_silence(int errno_value);

// The errors for the loss of `peer`, such as "rank 3 on b".

/// This rank has found out that the peer is lost. Code peer_lost.
Status lost_in_silence(const std::string& peer, double timeout_seconds);
/// The other end has ended the connection, perhaps only because a third rank has failed. Code transport.
Status connection_broke(const std::string& peer, const std::string& why);

}  // namespace dabke::links

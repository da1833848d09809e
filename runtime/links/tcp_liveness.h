// Whether the host at the other end of a connection that carries data is still there.
//
// The kernel's own limit (TCP_USER_TIMEOUT) would not do: it also breaks a connection whose peer answers but
// reads nothing for long, because it is stopped, or still busy with what comes before. So:
//   1. keep_alive() has the kernel ask the other host now and then while nothing moves. Where no answer comes
//      it breaks the connection.
//   2. Whoever waits for a connection asks silent_for() now and then, which looks at what was sent and has
//      not been acknowledged.
// Neither does anything between processes of one host.
#pragma once

#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke::links {

/// Breaks the connection (ETIMEDOUT) when nothing moves and its other end's host has been silent for about
/// `timeout`, of whole seconds. Zero: never.
void keep_alive(int fd, Duration timeout);

/// How often whoever waits for a connection should ask for how long it was silent.
Duration look_interval(Duration timeout);

/// What is remembered of one connection from look to look.
class TcpSilence {
 public:
  /// The time for which the other end's host has not answered anything; zero while it owes no answer.
  Duration silent_for(int fd, TimePoint now);
  /// What the last look has found.
  Duration last() const { return last_; }

 private:
  TimePoint owed_since_ = kNever;  // the first look since which it has always owed an answer
  Duration last_{};
};

/// Whether the connection has ended, whoever has ended it: nothing more can come.
bool is_over(int fd);

/// Whether that is how a connection ends whose other end's host has not answered, or cannot be reached any
/// more.
bool is_silence(int errno_value);

// How the loss is told, of "rank 3 on b".

/// This rank has found out that the other one is lost. Code peer_lost.
Status lost_in_silence(const std::string& peer, double timeout_seconds);
/// The other end has ended the connection. That may be no more than what follows from a third rank's failure.
/// Code transport.
Status connection_broke(const std::string& peer, const std::string& why);

}  // namespace dabke::links

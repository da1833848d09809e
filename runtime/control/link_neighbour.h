// One neighbour of a channel over links, with its state.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/threads/guarded_fd.h"
#include "runtime/control/clock_offset.h"
#include "runtime/links/link.h"

namespace dabke::control {

struct LinkNeighbour {
  Rank rank = -1;
  std::string name;  // "rank 3 on host-b"
  std::unique_ptr<links::Link> link;
  GuardedFd process;  // pidfd; empty if the process is not watched
  bool beats = false;
  ClockComparison clock;         // only for a peer with beats
  bool waits_to_write = false;   // as it is set in epoll
  TimePoint last_heard;          // only for a peer with beats
  bool has_spoken = false;       // it is then past its init
  TimePoint ended_at = kNever;   // its process ended: the link is read until then at the latest
  TimePoint last_word = kNever;  // and until this time after the last bytes
  Status failure;                // found outside poll(); the next poll() reports it
};

}  // namespace dabke::control

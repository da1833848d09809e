// One neighbour of a channel over links, and what is known of it.
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
  GuardedFd process;  // pidfd; empty when not watched
  bool beats = false;
  ClockComparison clock;         // a peer with beats only
  bool waits_to_write = false;   // what epoll watches
  TimePoint last_heard;          // a peer with beats only
  bool has_spoken = false;       // so it is past its init
  TimePoint ended_at = kNever;   // its process ended: the link is read until then at the latest
  TimePoint last_word = kNever;  // and no longer than this after the last bytes
  Status failure;                // found outside poll(), to be reported by the next one
};

}  // namespace dabke::control

// The slots and hosts that are left out for a while, because a process or a whole host was lost there. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke::launcher {

/// A place for a process: a host, and a local rank there.
struct Slot {
  std::string host;
  int local_rank = 0;
  friend auto operator<=>(const Slot&, const Slot&) = default;
};

class Cooldowns {
 public:
  /// A first failure costs `least`, and each further one in the same place twice as much, up to `most`.
  Cooldowns(Duration least, Duration most) : least_(least), most_(most) {}

  void note_failure(const Slot& slot, TimePoint now) { note(slots_[slot], now); }
  void note_loss(const std::string& host, TimePoint now) { note(hosts_[host], now); }
  bool is_cooling(const Slot& slot, TimePoint now) const;
  /// The first end of a cooldown after `time`; kNever if there is none.
  TimePoint first_end_after(TimePoint time) const;
  /// "host a for 8 s", "b:1 for 3 s"
  std::vector<std::string> texts(TimePoint now) const;

 private:
  struct Cooldown {
    int failures = 0;
    TimePoint until{};
  };
  void note(Cooldown& cooldown, TimePoint now) const;

  const Duration least_, most_;
  std::map<Slot, Cooldown> slots_;
  std::map<std::string, Cooldown> hosts_;
};

}  // namespace dabke::launcher

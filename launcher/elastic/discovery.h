// Runs the script that lists the hosts of an elastic job, again and again. A script that fails or hangs
// changes nothing: the last list stays.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts/hosts.h"
#include "launcher/reach/watched_process.h"
#include "runtime/base/clock.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

class Discovery {
 public:
  struct Settings {
    std::string script;      // a command line for the shell
    int slots_per_host = 1;  // of a host that the script lists without a number
    Duration interval = std::chrono::seconds(1);
    Duration limit = std::chrono::seconds(10);  // of one run of the script
  };
  explicit Discovery(Settings settings) : settings_(std::move(settings)) {}
  /// Kills a script that still runs.
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);
  TimePoint deadline() const;
  /// Starts the script when it is due, and ends one that takes too long.
  void tick(TimePoint now);

  /// The hosts, if they have changed since the last call.
  std::optional<std::vector<Host>> take_hosts();
  /// Why the last run gave no list, in one line, if it is not the reason of the run before; else empty.
  std::string take_trouble();
  /// Why the last run gave no list, in one line; empty if it gave one.
  std::string trouble() const;

 private:
  void start(TimePoint now);
  void finish(TimePoint now);
  void take_list();
  void fail(const std::string& why);

  const Settings settings_;
  TimePoint start_at_{};  // of the next run
  bool is_running_ = false;
  TimePoint ends_at_{};  // the limit of this run
  WatchedProcess process_;
  Fd output_;
  std::string list_;
  std::optional<std::vector<Host>> hosts_, new_hosts_;
  std::string trouble_, new_trouble_;
};

}  // namespace dabke::launcher

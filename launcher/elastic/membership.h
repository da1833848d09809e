// The members of an elastic job, from epoch to epoch. Pure: the caller passes events and the time, and
// carries out the actions.
//
// 1. A process is started on each free slot, up to the greatest number. It comes to a meeting when its
//    program calls init.
// 2. An epoch opens when all its members have come: the survivors of the epoch before in their old order,
//    then newcomers by host.
// 3. A member is lost when its process ends with a failure. The survivors notice that by themselves, and
//    come. A slot whose process has failed stays free for a while, which doubles with each failure.
// 4. A newcomer that comes while an epoch is well waits. The change is announced, the members leave the epoch
//    at their next commit, and come. The same happens when a host is no longer listed.
// 5. Once a member has ended with status 0, the program is at its end: there are no newcomers any more, and
//    survivors go on whatever their number.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/elastic/cooldowns.h"
#include "launcher/elastic/crash_loop_watch.h"
#include "launcher/hosts/hosts.h"
#include "runtime/base/clock.h"
#include "runtime/bootstrap/elastic/arrival.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"

namespace dabke::launcher {

using bootstrap::WorkerId;

struct MembershipLimits {
  int first_np = 1;  // members that the first epoch waits for
  int min_np = 1, max_np = 1;
  int spares = 0;                                  // processes beyond max_np, which wait
  std::optional<int> reset_limit;                  // changes after the first epoch
  Duration wait_limit = std::chrono::minutes(10);  // for members, and for enough of them
  Duration least_cooldown = std::chrono::seconds(10), most_cooldown = std::chrono::minutes(10);
};

class Membership {
 public:
  /// Start a process for the slot.
  struct Start {
    WorkerId worker = 0;
    Slot slot;
  };
  /// Kill the process. It counts as lost when its end is reported.
  struct Kill {
    WorkerId worker = 0;
    std::string why;
  };
  /// Publish the plan, and answer its members.
  struct Open {
    bootstrap::EpochPlan plan;
    std::vector<std::uint64_t> visits;  // that the plan answers, by rank
    std::uint64_t repeated_steps = 0;   // the most that a holder of the newest commit has to repeat
  };
  /// Announce to the members of the current epoch that the job changes: the number is one more each time.
  struct Announce {
    std::uint64_t change = 0;
    std::string why;
  };
  /// Answer an arrival: this process is not part of the job any more.
  struct Refuse {
    WorkerId worker = 0;
    std::uint64_t visit = 0;
    bool is_failure = false;
    std::string why;
  };
  /// The job is over.
  struct End {
    bool is_failure = false;
    std::string why;
  };
  using Action = std::variant<Start, Kill, Open, Announce, Refuse, End>;

  explicit Membership(MembershipLimits limits)
      : limits_(limits), cooldowns_(limits.least_cooldown, limits.most_cooldown) {}

  /// The hosts that may be used from now on, in the order in which slots are filled.
  void set_hosts(std::vector<Host> hosts, TimePoint now);
  void take_arrival(const bootstrap::Arrival& arrival, TimePoint now);
  /// The process has ended. `failure` describes how; empty: with status 0.
  void take_end(WorkerId worker, const std::string& failure, TimePoint now);
  /// The host is lost as a whole. The ends of its processes are reported as well.
  void take_host_loss(const std::string& host, TimePoint now);
  void tick(TimePoint now);
  /// When tick() is due.
  TimePoint deadline() const;

  /// The actions since the last call, in order.
  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }
  bool is_over() const { return is_over_; }
  /// One line for live statistics (members_summary.h).
  std::string summary(TimePoint now) const;

 private:
  struct Worker {
    Slot slot;
    int rank = -1;                            // in the current epoch; -1: it is not a member
    std::optional<bootstrap::Arrival> waits;  // came, and has no answer yet
    bool is_leaving = false;                  // its slot is no longer listed
    bool is_doomed = false;                   // killed; its end is not reported yet
    bool has_left = false;                    // left in good order; its end is not reported yet
  };

  bool is_listed(const Slot& slot) const;
  bool is_slot_taken(const Slot& slot) const;
  int live_members() const;
  std::vector<WorkerId> awaited() const;
  std::vector<WorkerId> next_members() const;
  std::vector<WorkerId> waiting_newcomers() const;
  bool must_meet() const;
  int leaving_members() const;
  bool can_anybody_leave() const;
  void look(TimePoint now);
  void start_workers(TimePoint now);
  void let_leavers_go();
  void dismiss(WorkerId id);
  void meet(TimePoint now);
  void open(const std::vector<WorkerId>& members);
  void announce();
  void check_end();
  void end(bool is_failure, std::string why);

  const MembershipLimits limits_;
  std::vector<Host> hosts_;
  std::map<WorkerId, Worker> workers_;  // whose process lives
  Cooldowns cooldowns_;
  WorkerId next_worker_ = 0;
  bootstrap::EpochPlan plan_{
      .epoch = 0, .change = 0, .members = {}, .lost = {}};  // the current epoch; 0: none yet
  std::vector<bootstrap::LostMember> lost_;                 // of the current epoch
  bool is_finishing_ = false;                               // a member has ended with status 0
  CrashLoopWatch crash_loops_;
  std::uint64_t change_ = 0;
  bool is_announced_ = false;  // a change of the current epoch
  std::optional<TimePoint> waits_since_;
  std::vector<Action> actions_;
  TimePoint looked_at_{};
  bool is_over_ = false;
};

}  // namespace dabke::launcher

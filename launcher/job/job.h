// A running job: watches its ranks, carries their output and signals, and ends them together.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/hosts/placement.h"
#include "launcher/job/console.h"
#include "launcher/job/dump_gatherer.h"
#include "launcher/job/last_lines.h"
#include "launcher/job/orphans.h"
#include "launcher/job/outcome.h"
#include "launcher/job/spawn.h"
#include "launcher/job/terminal_input.h"
#include "launcher/job/worker_output.h"
#include "runtime/base/clock.h"
#include "runtime/base/owned.h"

namespace dabke {

/// One thread, one poll; nothing in it blocks but that.
class Job {
 public:
  /// `signals` is a signalfd of what to forward.
  Job(Console& console, int signals, const std::string& job_id, bool verbose)
      : console_(console), signals_(signals), verbose_(verbose), orphans_(job_id) {}

  Job(const Job&) = delete;  // its parts refer to it
  Job& operator=(const Job&) = delete;

  void add_rank(const RankPlacement& placement, SpawnedWorker worker, OutputStyle style, Fd output_file,
                Fd error_file);
  /// Runs until every rank has ended and its output is written. What dabkerun returns.
  int run();
  /// Prints a verdict when ranks of the job hang. Before run().
  void watch_dumps(DumpGatherer& gatherer) { gatherer_ = &gatherer; }
  /// Passes on what is typed for rank 0. Before run().
  void pass_input(TerminalInput& input) { input_ = &input; }
  /// A rank could not be started: ends the others, says `why`, and returns what dabkerun returns.
  int give_up(const std::string& why);

 private:
  struct Member {
    RankPlacement placement;
    pid_t supervisor = -1;
    Fd channel;
    WorkerOutput output, error_output;
    pid_t pid = 0;
    std::optional<RankEnd> end;
    /// The state of its process when the job began to be ended; empty: it had ended before.
    std::string state_at_failure;
    /// Whether its supervisor is still there, and so perhaps processes of the rank.
    bool is_supervised() const { return static_cast<bool>(channel); }
  };

  void say(std::string_view text);
  bool has_running_supervisor() const;
  bool is_waiting_for_processes() const;
  bool is_waiting_for_output() const;
  void turn();
  TimePoint next_deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries);
  void handle_entries(const std::vector<pollfd>& entries);
  void drop_output();
  void take_signal();
  void take_dumps();
  void judge_hang();
  void stop_and_continue();
  void take_reports(Member& member);
  void supervisor_ended(Member& member);
  void kill_orphans();
  void take_report(Member& member, const Report& report);
  void member_ended(Member& member, RankEnd end);
  void check_time();
  bool is_somebody_ending() const;
  std::vector<RankEnd> judged_ends() const;
  void tell_last_lines(Rank rank);
  void announce_failure();
  void command_all(std::int32_t command);
  void end_all(std::int32_t command);

  Console& console_;
  const int signals_;
  const bool verbose_;
  Orphans orphans_;
  std::vector<Member> members_;
  std::vector<RankEnd> ends_;
  std::set<Rank> blamed_;  // those that other ranks blame
  std::map<Rank, LastLines> last_lines_;
  TerminalInput* input_ = nullptr;
  DumpGatherer* gatherer_ = nullptr;
  std::map<Rank, Dump> dumps_;  // all of one incident
  std::uint64_t incident_ = 0;
  std::optional<TimePoint> judge_at_;  // dumps that have not come by then do not come
  bool has_verdict_ = false;
  std::optional<int> interrupted_by_;
  std::optional<int> last_signal_;  // that told dabkerun to end
  bool output_lost_ = false;
  bool reader_gone_ = false;             // the reader of stdout
  bool told_to_end_ = false;             // a signal of ours may have ended what ends now
  std::optional<TimePoint> settled_at_;  // a moment after the first failure
  TimePoint settle_limit_{};             // how long that may be put off
  bool announced_ = false;
  std::optional<TimePoint> kill_at_;     // ranks that had a signal forwarded and still run
  std::optional<TimePoint> abandon_at_;  // supervisors that do not answer
  std::optional<TimePoint> drop_at_;     // output that nobody has read by then
  bool is_output_dropped_ = false;
};

}  // namespace dabke

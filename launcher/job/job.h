// A running job: watches its ranks through their hosts' agents, carries their output and signals, and ends them
// together.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/hosts/placement.h"
#include "launcher/job/failures/failure_policy.h"
#include "launcher/job/failures/report_gatherer.h"
#include "launcher/job/input_carrier.h"
#include "launcher/job/signals/step_signals.h"
#include "launcher/job/signals/terminal_input.h"
#include "launcher/output/console.h"
#include "launcher/output/last_lines.h"
#include "launcher/output/repeated_texts.h"
#include "launcher/output/worker_output.h"
#include "launcher/process/supervisor.h"
#include "launcher/reach/agent_link.h"
#include "launcher/reach/agent_starter.h"
#include "launcher/verdict/outcome.h"
#include "runtime/base/clock.h"
#include "runtime/base/ended_rank.h"
#include "runtime/base/threads/owned.h"

namespace dabke {

/// The launcher's ends of what a rank prints, and the files that keep it; without pipes its agent carries it.
struct RankOutputs {
  Fd output, error_output;
  Fd output_file, error_file;
};

/// One thread, one poll; nothing in it blocks but that.
class Job {
 public:
  struct Settings {
    bool verbose = false;
    bool gives_terminals = false;  // to ranks, as their stdout
    std::string store;             // its address, for agents that carry connections to it
    std::function<void(const EndedRank& ended)> on_end;  // empty: nobody is told
    double start_timeout_s = 0;
    std::chrono::milliseconds grace = kPatience, grace_after_term = kPatienceAfterTerm;
  };
  /// `signals` is a signalfd of what to forward.
  Job(Console& console, int signals, const FailurePolicy& policy, AgentStarter starter, Settings settings);

  Job(const Job&) = delete;  // its parts refer to it
  Job& operator=(const Job&) = delete;

  /// What add_rank() takes. Agents of other hosts are started by run().
  AgentLink& add_agent(std::string host, PrepareMessage prepare);
  void add_rank(const RankPlacement& placement, AgentLink& agent, RankOutputs outputs, OutputStyle style);
  /// Runs until every rank has ended and its output is written. What dabkerun returns.
  int run();
  /// Prints a verdict when ranks of the job hang, and shows its figures where they come. Before run().
  void watch_reports(ReportGatherer& gatherer) { gatherer_ = &gatherer; }
  /// Passes on what is typed for rank 0. Before run().
  void pass_input(TerminalInput& input) { input_ = &input; }
  /// Carries what rank 0 is to read to its agent. Before run().
  void carry_input(AgentLink& agent, Fd input) { input_carrier_.emplace(agent, std::move(input)); }

 private:
  struct Member {
    RankPlacement placement;
    AgentLink* agent = nullptr;
    WorkerOutput output, error_output;
    pid_t pid = 0;
    pid_t supervisor = 0;
    std::optional<RankEnd> end;
    bool is_over = false;  // nothing of it is left
    /// The state of its process when the job began to be ended; empty: it had ended before.
    std::string state_at_failure;
  };
  /// Why the states of the ranks' processes are asked for.
  struct Survey {
    std::set<const AgentLink*> awaited;
    bool is_for_failure = false, is_for_hang = false;
    TimePoint limit{};
  };

  void say(std::string_view text);
  bool is_waiting_for_processes() const;
  bool is_waiting_for_output() const;
  void turn();
  TimePoint next_deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries);
  void handle_entries(const std::vector<pollfd>& entries);
  void drop_output();
  void take_signal();
  void take(int signal, const AgentLink* process, const SignalSender& sender);
  void forward(int signal, const SignalSender& sender);
  void take_dumps();
  void take_figures();
  void judge_hang();
  void tell_dump_files(std::string_view indent);
  void stop_and_continue();
  void resize_terminals();

  void take_frames(AgentLink& agent);
  void take_frame(AgentLink& agent, const FrameChannel::Frame& frame);
  void take_message(AgentLink& agent, const StartedMessage& started);
  void take_message(AgentLink& agent, const EndedMessage& ended);
  void take_message(AgentLink& agent, const FailedMessage& failed);
  void take_message(AgentLink& agent, const OutputMessage& output, bool is_end);
  void take_message(AgentLink& agent, const StatesMessage& states);
  void take_message(AgentLink& agent, const SignalledMessage& signalled);
  void open_store_connection(AgentLink& agent, std::int64_t connection);
  void start_agents();
  void take_dialled_agents(const std::vector<pollfd>& entries);
  void order_when_greeted();
  void merge_machines();
  void start_when_ready();
  void agent_lost(AgentLink& agent, const std::string& why);
  void blame_srun(const AgentLink& agent);
  void await_lost_supervisors();
  void refuse(int exit_code);
  TimePoint agents_end_by() const;
  Member* member_of(AgentLink& agent, std::int32_t rank);
  void member_over(Member& member);

  void member_ended(Member& member, RankEnd end);
  void check_time();
  void check_agents();
  void check_survey();
  void survey(bool is_for_failure);
  bool is_somebody_ending() const;
  bool is_blamed_awaited() const;
  std::vector<RankEnd> judged_ends() const;
  void tell_last_lines(Rank rank);
  bool tell_lost_copies();
  void settle_failure();
  void announce_failure();
  void command_all(std::int32_t command);
  void end_all(std::int32_t command);

  Console& console_;
  const int signals_;
  const FailurePolicy& policy_;
  const Settings settings_;
  AgentStarter starter_;  // outlives the links: the end of srun waits for the agents'
  std::vector<std::unique_ptr<AgentLink>> agents_;
  std::vector<Member> members_;
  std::optional<InputCarrier> input_carrier_;
  bool is_started_ = false;                           // every agent has been told to go
  std::optional<int> refused_with_;                   // what dabkerun returns of a job that has not begun
  std::optional<TimePoint> look_for_supervisors_at_;  // those of an agent of this host that was killed
  std::vector<RankEnd> ends_;
  std::map<Rank, std::string> blamed_;  // those that other ranks blame, and what the first says of each
  std::map<Rank, Rank> blamed_first_;   // by those that blame
  std::map<Rank, LastLines> last_lines_;
  std::size_t lines_shown_ = 0;
  RepeatedTexts texts_;
  TerminalInput* input_ = nullptr;
  ReportGatherer* gatherer_ = nullptr;
  FiguresTable figures_;
  std::map<Rank, Dump> dumps_;  // all of one incident
  std::uint64_t incident_ = 0;
  std::optional<TimePoint> judge_at_;  // dumps that have not come by then do not come
  std::vector<std::string> verdict_;   // the last that was told
  bool are_dumps_told_ = false;
  std::optional<Survey> survey_;
  std::map<Rank, RankState> states_;  // as the agents last said
  StepSignals step_signals_;
  std::map<int, std::string> forwarded_;  // signals, with who has sent the last of each
  std::optional<int> interrupted_by_;
  std::set<int> passed_on_;         // that tell ranks to end; a second one changes nothing
  std::optional<int> last_signal_;  // that told dabkerun to end
  bool output_lost_ = false;
  bool reader_gone_ = false;             // the reader of stdout
  bool told_to_end_ = false;             // a signal of ours may have ended what ends now
  std::optional<TimePoint> settled_at_;  // a moment after the first failure
  TimePoint settle_limit_{};             // how long that may be put off
  TimePoint blamed_limit_{};             // the same for a rank that others name as the cause
  bool announced_ = false;
  std::optional<TimePoint> kill_at_;     // ranks that had a signal forwarded and still run
  std::optional<TimePoint> abandon_at_;  // agents that do not answer
  std::optional<TimePoint> drop_at_;     // output that nobody has read by then
  bool is_output_dropped_ = false;
};

}  // namespace dabke

// The agents of hosts in a Slurm job: srun starts them, and they connect back (launcher/agent/dial.h). One
// srun starts them all, or, in an elastic job, one each.
#pragma once

#include <poll.h>

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent_protocol/dialling.h"
#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/reach/agent_link.h"
#include "launcher/reach/watched_process.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"
#include "runtime/links/handshake.h"
#include "runtime/links/network.h"

namespace dabke::launcher {

/// Returns the words of that srun. `environment` has NAME=value of this process. Variables in it that would
/// change srun's behaviour are unset for srun. Pure.
std::vector<std::string> srun_command(const std::string& dabkerun, const std::vector<std::string>& hosts,
                                      const std::vector<std::string>& environment);
/// The same for the agent of one host, which is to be lost alone if its host is lost.
std::vector<std::string> srun_command_for(const std::string& host, const std::string& dabkerun,
                                          const std::vector<std::string>& environment);

class DialledAgents {
 public:
  struct Settings {
    std::vector<std::string> command;  // srun_command(); empty: each agent has an srun, which expect() needs
    std::vector<std::string> hosts;
    std::string job_id, job_key;
    std::vector<links::SocketAddress> listen_at;  // port 0
    double timeout_s = 0;
  };
  struct Arrival {
    std::string host;
    Fd socket;  // the agent's greeting waits in it
  };

  /// Listens. Fails if none of the addresses can be used.
  static Result<std::unique_ptr<DialledAgents>> open(Settings settings);
  /// Waits a moment for srun, and then ends it.
  ~DialledAgents();
  DialledAgents(const DialledAgents&) = delete;
  DialledAgents& operator=(const DialledAgents&) = delete;

  /// Starts the srun of all agents.
  Status start();
  /// Lets the agent of one of the hosts connect, also after an earlier agent of that host. Returns the input
  /// for its srun.
  DialMessage expect(const std::string& host);
  bool is_started() const { return is_started_; }
  std::string command() const;
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const std::vector<pollfd>& entries);
  std::optional<Arrival> take_arrival();

  /// True if srun has closed its stderr, which it does when it ends.
  bool has_ended() const { return is_started_ && process_.words_fd() < 0; }
  /// Describes how a signal has ended srun; empty if none has, for example when all agents are done. Called
  /// when an agent is lost. The first call waits half a second for srun's end, which may come after the
  /// processes that Slurm ends with it.
  std::string how_it_was_killed();
  /// The same, without waiting.
  bool is_killed() { return process_.wait_until(Clock::now()) && process_.was_killed(); }
  /// Waits for srun, and ends it if it does not end by itself. Returns its exit code, as a shell does.
  int close();
  /// Asks srun to end, and leaves it little time for that.
  void give_up();
  /// Returns srun's output on stderr.
  std::vector<std::string> words() const { return non_empty_lines(process_.words()); }

 private:
  struct Client {
    Fd socket;
    links::Handshake handshake;
    TimePoint deadline;
  };

  explicit DialledAgents(Settings settings) : settings_(std::move(settings)) {}
  void accept(int listener);
  void advance(Client& client);
  bool is_expected(Rank number) const;
  DialMessage message() const;

  const Settings settings_;
  links::Handshake::Self self_;
  std::vector<Fd> listeners_;
  std::vector<std::string> addresses_;
  WatchedProcess process_;
  FrameChannel input_;  // srun's stdin and stdout
  bool is_started_ = false;
  Duration farewell_ = std::chrono::seconds(2);  // Slurm takes a moment to end a step
  bool has_awaited_end_ = false;
  std::list<Client> clients_;
  std::vector<bool> has_arrived_;  // by host; also a host that is not expected
  std::vector<Arrival> arrivals_;
};

}  // namespace dabke::launcher

// The messages between the launcher and the agent of a host, in frames
// (launcher/agent_protocol/frame_channel.h).
//
// 1. The agent greets (launcher/agent_protocol/greeting.h). Bytes before the greeting are not the agent's: a
//    shell may print text, too.
// 2. The launcher waits until every agent has greeted and it is clear which hosts are one machine. Then it
//    sends `prepare` with all that the host is to run. The agent answers `ready`, or `failed` with the reason
//    and the exit code for it.
// 3. When every host is ready, the launcher sends `go`. The agent starts its ranks, each below a supervisor
//    (launcher/process/supervisor.h), and reports `started`, `ended` and `over` of each.
// 4. Output comes in frames, unless the launcher has kept the pipes itself, as it does on its own host.
//    `hold` stops a stream while there is no room for it.
// 5. If a rank's stdout is a pseudo-terminal, `window` has its size: before `go`, and again whenever the size
//    of the launcher's terminal changes.
// 6. `input` is the input of rank 0, if rank 0 is on another host. The agent answers each with `input_taken`,
//    so that only one is in flight.
// 7. `look` asks for the state of the ranks' processes, as /proc shows it. The agent answers `states`.
// 8. Ranks connect to the agent to reach the store. The agent carries these connections in `store_*` frames.
//    So the launcher listens only on its own loopback interface.
// 9. Between hosts the launcher sends `beat` once a second, and the agent answers with its clock (`clock`).
//    An end of file, or silence for longer than the peer timeout, ends everything on the agent's host. Before
//    `prepare`, which has that timeout, kSilenceBeforeOrder applies. On one host there are no beats: a
//    stopped process is slow, not gone.
// 10. `pause` announces that Ctrl-Z stops the launcher. Its silence means nothing until its next frame.
// 11. To examine a host (launcher/doctor/) the launcher sends `examine` instead of `prepare`. The agent
//     answers `examined` with the properties of the host and its listening addresses. Then follow `reach`,
//     answered by `reached`, and `measure`, answered by `measured`, one at a time
//     (launcher/examination/examination.h).
// 12. Signals for the ranks come in `command`. A batch system may signal all processes of a step. The agent
//     passes a signal that it gets itself on as `signalled`. The launcher decides what it means for the job,
//     on all hosts.
// 13. In an elastic job, `prepare` names no ranks. Each `start_rank` after `go` starts one, and `end_rank`
//     ends one. The rank numbers in frames are then numbers of workers (launcher/elastic/membership.h).
//     `watch_rank` names the process that has called init, which a script of the user may have started.
// 14. The launcher ends the conversation by closing it, once every rank is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent_protocol/wire.h"
#include "launcher/hosts/placement.h"
#include "launcher/machine/core_shares.h"
#include "launcher/process/output_ends.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/worker_environment.h"

namespace dabke::launcher {

inline constexpr std::chrono::seconds kSilenceBeforeOrder{60};

enum class FrameKind : std::uint8_t {
  // to the agent
  prepare = 1,
  go,
  command,
  look,
  hold,
  window,
  input,
  pause,
  beat,
  examine,
  reach,
  measure,
  start_rank,
  end_rank,
  watch_rank,
  // to the launcher
  ready = 32,
  failed,
  started,
  ended,
  over,
  log,
  states,
  output,
  output_end,
  input_taken,
  clock,
  examined,
  reached,
  measured,
  signalled,
  // both ways
  store_open = 64,
  store_bytes,
  store_close,
};

struct RankOrder {
  RankPlacement placement;
  std::vector<std::pair<std::string, std::string>> variables;  // of this rank only
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    auto& at = self.placement;
    io(at.rank, at.size, at.local_rank, at.local_size, at.cross_rank, at.cross_size, at.host, self.variables);
  }
};

struct PrepareMessage {
  std::vector<std::string> command;
  std::string directory;                 // empty: the agent's own directory
  std::vector<std::string> environment;  // NAME=value
  std::string rendezvous;                // empty: the agent carries connections to the store
  // The key is empty if the agent has it already (launcher/agent/dial.h).
  std::string job_id, job_key;
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<RankOrder> ranks;
  BindTo bind_to = BindTo::none;
  bool verbose = false;
  StdoutKind stdout_kind = StdoutKind::pipe;  // if output comes in frames
  bool carries_input = false;                 // for rank 0
  bool keeps_own_variables = false;           // the agent's variables that `environment` lacks
  std::int64_t peer_timeout_ms = 0;           // 0: silence means nothing
  std::int64_t grace_ms = 0;                  // from SIGTERM to SIGKILL
  bool is_elastic = false;                    // ranks come in `start_rank`, also after others have ended
  // A rank that is stopped for longer is killed; 0: a stopped rank is left alone.
  std::int64_t stop_limit_ms = 0;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.command, self.directory, self.environment, self.rendezvous, self.job_id, self.job_key,
       self.variables, self.ranks, self.bind_to, self.verbose, self.stdout_kind, self.carries_input,
       self.keeps_own_variables, self.peer_timeout_ms, self.grace_ms, self.is_elastic, self.stop_limit_ms);
  }
};

struct CommandMessage {
  std::int32_t command = 0;  // as Command of launcher/process/supervisor.h, for every rank of the host
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.command);
  }
};

struct SignalledMessage {
  std::int32_t signal = 0;
  SignalSender sender;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.signal, self.sender);
  }
};

struct HoldMessage {
  bool is_error_output = false;
  bool is_held = false;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.is_error_output, self.is_held);
  }
};

struct WindowMessage {
  std::int32_t rank = 0, rows = 0, columns = 0;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.rank, self.rows, self.columns);
  }
};

struct FailedMessage {
  std::int32_t exit_code = 1;
  std::string why;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.exit_code, self.why);
  }
};

struct StartedMessage {
  std::int32_t rank = 0, pid = 0, supervisor = 0;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.rank, self.pid, self.supervisor);
  }
};

struct EndedMessage {
  enum class How : std::int32_t { exited, not_started, supervisor_lost };
  std::int32_t rank = 0;
  How how = How::exited;
  std::int32_t value = 0;    // as from waitpid, or errno
  std::int64_t time_ns = 0;  // by the clock of the rank's host
  std::int32_t our_signal = 0;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.rank, self.how, self.value, self.time_ns, self.our_signal);
  }
};

struct RankMessage {
  std::int32_t rank = 0;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.rank);
  }
};

struct WatchMessage {
  std::int32_t rank = 0;
  std::string process;  // as to_text(links::ProcessIdentity)
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.rank, self.process);
  }
};

struct TextMessage {
  std::string text;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.text);
  }
};

struct RankState {
  std::int32_t rank = 0;
  bool is_ending = false;
  std::string state;  // as returned by process_state()
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.rank, self.is_ending, self.state);
  }
};

/// The states of the ranks that have not ended.
struct StatesMessage {
  std::vector<RankState> ranks;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.ranks);
  }
};

struct OutputMessage {
  std::int32_t rank = 0;
  bool is_error_output = false;
  std::string bytes;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.rank, self.is_error_output, self.bytes);
  }
};

/// The beat, and its answer.
struct ClockMessage {
  std::int64_t asked_ns = 0;  // the launcher's time of asking
  std::int64_t time_ns = 0;   // the agent's
  std::int64_t wall_ns = 0;   // the agent's time of day, since 1970
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.asked_ns, self.time_ns, self.wall_ns);
  }
};

struct ExamineMessage {
  std::string job_id, job_key;  // as in PrepareMessage
  std::int32_t number = 0;      // of this host among the examined hosts
  std::string network_interfaces;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.job_id, self.job_key, self.number, self.network_interfaces);
  }
};

/// The findings of an agent about its host. -1 stands for an unknown value.
struct ExaminedMessage {
  std::string host_name;
  std::int32_t usable_units = -1, all_units = -1;  // in the affinity mask, and online
  std::int64_t quota_thousandths = 0;              // of a unit, the control group's quota; 0: no quota
  std::int64_t memory = -1, free_memory = -1;      // bytes, as the next two
  std::int64_t shm = -1, free_shm = -1;            // of /dev/shm
  bool is_shm_writable = false;
  std::int64_t open_files = -1, processes = -1, locked_memory = -1;  // hard limits; INT64_MAX: none
  std::int32_t first_port = -1, last_port = -1;                      // of the ports that the system assigns
  std::vector<std::string> addresses;                                // at which the agent listens, with ports
  std::vector<std::string> troubles;                                 // why it does not listen at others
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.host_name, self.usable_units, self.all_units, self.quota_thousandths, self.memory,
       self.free_memory, self.shm, self.free_shm, self.is_shm_writable, self.open_files, self.processes,
       self.locked_memory, self.first_port, self.last_port, self.addresses, self.troubles);
  }
};

struct ExaminedPeer {
  std::int32_t number = 0;
  std::vector<std::string> addresses;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.number, self.addresses);
  }
};

struct ReachMessage {
  std::vector<ExaminedPeer> peers;
  std::int64_t wait_limit_ms = 0;  // for each 64 peers
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.peers, self.wait_limit_ms);
  }
};

struct ReachedPeer {
  std::int32_t number = 0;
  std::string address;  // the most likely address at which it has proved itself; empty: none
  std::string trouble;  // if there is none, with each address
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.number, self.address, self.trouble);
  }
};

struct ReachedMessage {
  std::vector<ReachedPeer> peers;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.peers);
  }
};

struct MeasureMessage {
  std::int32_t number = 0;
  std::string address;
  std::int64_t wait_limit_ms = 0;
  std::int64_t duration_ms = 0;  // of the sending
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.number, self.address, self.wait_limit_ms, self.duration_ms);
  }
};

struct MeasuredMessage {
  std::int64_t round_trip_ns = 0;  // the shortest
  std::int64_t bytes_per_s = 0;
  std::string trouble;  // empty: both values are valid
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.round_trip_ns, self.bytes_per_s, self.trouble);
  }
};

struct StoreMessage {
  std::int64_t connection = 0;
  std::string bytes;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.connection, self.bytes);
  }
};

}  // namespace dabke::launcher

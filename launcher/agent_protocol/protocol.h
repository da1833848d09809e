// What the launcher and the agent of a host say to each other, in frames (launcher/agent_protocol/frame_channel.h).
//
// 1. The agent greets (launcher/agent_protocol/greeting.h). Whatever comes before that is not the agent's: a shell may greet, too.
// 2. When every agent has greeted, and it is clear which hosts are one machine, the launcher sends `prepare` with all
//    that the host is to run. The agent answers `ready`, or `failed` with the reason and the exit code that it makes.
// 3. When every host is ready, `go`: the agent starts its ranks, each below a supervisor
//    (launcher/process/supervisor.h), and tells `started`, `ended` and `over` of each.
// 4. Output comes in frames where the launcher has not kept the pipes itself, as it does on its own host; `hold`
//    stops a stream while nobody has room for it. Where a rank's stdout is a pseudo-terminal, `window` has its size: before
//    `go`, and again whenever the launcher's terminal has another. `input` is what rank 0 reads, where it is on another host;
//    each is answered by `input_taken`, so that one is under way at a time.
// 5. `look` asks for the state of the ranks' processes, as /proc has it, and is answered by `states`.
// 6. Connections to the store are made to the agent, which carries them in `store_*` frames. So the launcher
//    listens on its own loopback interface alone.
// 7. Between hosts the launcher sends `beat` once a second, and the agent answers with its clock (`clock`). An end
//    of file, or silence for longer than the peer timeout, ends everything on the agent's host; before `prepare`, which
//    has that time, kSilenceBeforeOrder counts. On one host there
//    are no beats: a stopped process is slow, not gone. `pause`: the launcher is being stopped by Ctrl-Z, and
//    its silence means nothing until it speaks again.
// 8. To examine a host (launcher/doctor/) it sends `examine` in the place of `prepare`, answered by `examined` with what the
//    host is like and where it listens; then `reach`, answered by `reached`, and `measure`, answered by `measured`, one at
//    a time (launcher/examination/examination.h).
// 9. Signals for the ranks come in `command`. One that the agent gets itself, because a batch system signals all processes of a
//    step, it passes on as `signalled`; what it means for the job, on all hosts, is the launcher's to say.
// 10. The launcher ends the conversation by closing it, once every rank is over.
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
  std::vector<std::pair<std::string, std::string>> variables;  // of this rank alone
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    auto& at = self.placement;
    io(at.rank, at.size, at.local_rank, at.local_size, at.cross_rank, at.cross_size, at.host, self.variables);
  }
};

struct PrepareMessage {
  std::vector<std::string> command;
  std::string directory;                 // empty: where the agent is
  std::vector<std::string> environment;  // NAME=value
  std::string rendezvous;                // empty: the agent carries connections to the store
  std::string job_id, job_key;  // the key is empty where the agent has it already (launcher/agent/dial.h)
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<RankOrder> ranks;
  BindTo bind_to = BindTo::none;
  bool verbose = false;
  StdoutKind stdout_kind = StdoutKind::pipe;  // where output comes in frames
  bool carries_input = false;                 // for rank 0
  bool keeps_own_variables = false;           // those that `environment` lacks, as the agent has them
  std::int64_t peer_timeout_ms = 0;           // 0: silence means nothing
  std::int64_t grace_ms = 0;                  // from SIGTERM to SIGKILL
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.command, self.directory, self.environment, self.rendezvous, self.job_id, self.job_key,
       self.variables, self.ranks, self.bind_to, self.verbose, self.stdout_kind, self.carries_input,
       self.keeps_own_variables, self.peer_timeout_ms, self.grace_ms);
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
  std::int64_t time_ns = 0;  // by the clock of its host
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
  std::string state;  // as process_state() has it
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.rank, self.is_ending, self.state);
  }
};

/// Of those that have not ended.
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
  std::int64_t asked_ns = 0;  // the launcher's, when it asked
  std::int64_t time_ns = 0;   // the agent's
  std::int64_t wall_ns = 0;   // the agent's time of day, since 1970
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.asked_ns, self.time_ns, self.wall_ns);
  }
};

struct ExamineMessage {
  std::string job_id, job_key;  // as PrepareMessage has them
  std::int32_t number = 0;      // of this host among those that are examined
  std::string network_interfaces;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.job_id, self.job_key, self.number, self.network_interfaces);
  }
};

/// What an agent finds of its host. Of what it does not find out, -1.
struct ExaminedMessage {
  std::string host_name;
  std::int32_t usable_units = -1, all_units = -1;  // of the affinity mask, and online
  std::int64_t quota_thousandths = 0;  // of a unit that the control group grants; 0: as many as there are
  std::int64_t memory = -1, free_memory = -1;  // bytes, as the next two
  std::int64_t shm = -1, free_shm = -1;        // of /dev/shm
  bool is_shm_writable = false;
  std::int64_t open_files = -1, processes = -1, locked_memory = -1;  // hard limits; INT64_MAX: none
  std::int32_t first_port = -1, last_port = -1;                      // of those that the system gives out
  std::vector<std::string> addresses;                                // at which the agent listens, with ports
  std::vector<std::string> troubles;                                 // why it does not at others
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
  std::int64_t wait_limit_ms = 0;  // for each 64 of them
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.peers, self.wait_limit_ms);
  }
};

struct ReachedPeer {
  std::int32_t number = 0;
  std::string address;  // the likeliest at which it has proved itself; empty: none
  std::string trouble;  // then, with each address
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
  std::int64_t duration_ms = 0;  // for which bytes are sent
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.number, self.address, self.wait_limit_ms, self.duration_ms);
  }
};

struct MeasuredMessage {
  std::int64_t round_trip_ns = 0;  // the shortest
  std::int64_t bytes_per_s = 0;
  std::string trouble;  // empty: both are known
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

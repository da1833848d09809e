// What the launcher and the agent of a host say to each other, in frames (launcher/agent/frame_channel.h).
//
// 1. The agent greets (launcher/agent/greeting.h). Whatever comes before that is not the agent's: a shell may greet, too.
// 2. When every agent has greeted, and it is clear which hosts are one machine, the launcher sends `prepare` with all
//    that the host is to run. The agent answers `ready`, or `failed` with the reason and the exit code that it makes.
// 3. When every host is ready, `go`: the agent starts its ranks, each below a supervisor
//    (launcher/agent/supervisor.h), and tells `started`, `ended` and `over` of each.
// 4. Output comes in frames where the launcher has not kept the pipes itself, as it does on its own host; `hold`
//    stops a stream while nobody has room for it. `input` is what rank 0 reads, where it is on another host;
//    each is answered by `input_taken`, so that one is under way at a time.
// 5. `look` asks for the state of the ranks' processes, as /proc has it, and is answered by `states`.
// 6. Connections to the store are made to the agent, which carries them in `store_*` frames. So the launcher
//    listens on its own loopback interface alone.
// 7. Between hosts the launcher sends `beat` once a second, and the agent answers with its clock (`clock`). An end
//    of file, or silence for longer than the peer timeout, ends everything on the agent's host; before `prepare`, which
//    has that time, kSilenceBeforeOrder counts. On one host there
//    are no beats: a stopped process is slow, not gone. `pause`: the launcher is being stopped by Ctrl-Z, and
//    its silence means nothing until it speaks again.
// 8. The launcher ends the conversation by closing it, once every rank is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/wire.h"
#include "launcher/agent/worker_environment.h"
#include "launcher/hosts/core_shares.h"
#include "launcher/hosts/placement.h"

namespace dabke {

inline constexpr std::chrono::seconds kSilenceBeforeOrder{60};

enum class FrameKind : std::uint8_t {
  // to the agent
  prepare = 1,
  go,
  command,
  look,
  hold,
  input,
  pause,
  beat,
  // to the launcher
  ready = 32,
  failed,
  started,
  ended,
  over,
  says,
  states,
  output,
  output_end,
  input_taken,
  clock,
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
  bool carries_input = false;        // for rank 0
  bool keeps_own_variables = false;  // those that `environment` lacks, as the agent has them
  std::int64_t peer_timeout_ms = 0;  // 0: silence means nothing
  std::int64_t grace_ms = 0;         // from SIGTERM to SIGKILL
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.command, self.directory, self.environment, self.rendezvous, self.job_id, self.job_key,
       self.variables, self.ranks, self.bind_to, self.verbose, self.carries_input, self.keeps_own_variables,
       self.peer_timeout_ms, self.grace_ms);
  }
};

struct CommandMessage {
  std::int32_t command = 0;  // as Command of launcher/agent/supervisor.h, for every rank of the host
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.command);
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
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.asked_ns, self.time_ns);
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

}  // namespace dabke

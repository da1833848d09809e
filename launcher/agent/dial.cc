#include "launcher/agent/dial.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/agent/agent.h"
#include "launcher/agent_protocol/dialling.h"
#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/wire.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/process_setup.h"
#include "runtime/base/clock.h"
#include "runtime/base/hmac.h"
#include "runtime/base/settings/config.h"
#include "runtime/links/handshake_io.h"
#include "runtime/links/network.h"

extern char** environ;

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// The limit for srun's stdin, which arrives only after srun has started on all hosts.
constexpr auto kMessageLimit = 60s;
constexpr auto kAgain = 200ms;

Fd duplicate_of(int fd) { return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

Result<DialMessage> read_message() {
  FrameChannel channel(duplicate_of(STDIN_FILENO), duplicate_of(STDIN_FILENO));
  const TimePoint limit = Clock::now() + kMessageLimit;
  while (Clock::now() < limit && channel.is_open()) {
    pollfd entry{channel.in(), POLLIN, 0};
    if (::poll(&entry, 1, poll_timeout_ms(limit)) <= 0) continue;
    const bool is_there = channel.read();
    if (const auto frame = channel.next()) {
      DialMessage message;
      if (frame->kind == kDialFrame && from_wire(frame->content, message)) return message;
      return Status(Code::transport,
                    "the settings on stdin cannot be read: the launcher has another version");
    }
    if (!is_there || channel.is_broken()) break;
  }
  return Status(Code::transport, "stdin does not contain the launcher's address; --dial is only for srun");
}

struct Attempt {
  links::SocketAddress address;
  Fd socket;
  std::optional<links::Handshake> handshake;
  std::string trouble = "no answer";
};

void begin(Attempt& attempt, const links::Handshake::Self& self) {
  attempt.socket = Fd(::socket(attempt.address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto handshake = links::Handshake::connect(self, kLauncherNumber);
  if (!attempt.socket || !handshake.is_ok()) return;
  const int on = 1;
  ::setsockopt(attempt.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  attempt.handshake = handshake.take();
  if (::connect(attempt.socket.get(), attempt.address.get(), attempt.address.length()) == 0 ||
      errno == EINPROGRESS)
    return;
  attempt.trouble = system_error("it cannot be reached", errno).message();
  attempt.socket = Fd();
}

/// True if the attempt has become the connection.
bool advance(Attempt& attempt) {
  const links::HandshakeTurn turn = links::converse_over(attempt.socket.get(), *attempt.handshake);
  if (attempt.handshake->done() && attempt.handshake->outgoing().empty()) return true;
  if (turn.ended.is_ok()) return false;
  attempt.trouble = turn.ended.message();
  attempt.socket = Fd();
  return false;
}

Result<Fd> dial(const DialMessage& message, const links::Handshake::Self& self) {
  std::vector<Attempt> attempts;
  for (const std::string& text : message.addresses) {
    DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::SocketAddress::parse(text));
    attempts.push_back({.address = address, .socket = Fd(), .handshake = {}});
  }
  const TimePoint limit = Clock::now() + std::chrono::milliseconds(message.timeout_ms);
  TimePoint again = Clock::now();
  while (Clock::now() < limit) {
    if (Clock::now() >= again) {
      for (Attempt& attempt : attempts) {
        if (!attempt.socket) begin(attempt, self);
      }
      again = Clock::now() + kAgain;
    }
    std::vector<pollfd> entries;
    for (const Attempt& attempt : attempts) {
      const bool has_more = attempt.handshake && !attempt.handshake->outgoing().empty();
      if (attempt.socket)
        entries.push_back(
            {attempt.socket.get(), static_cast<short>(has_more ? POLLIN | POLLOUT : POLLIN), 0});
    }
    ::poll(entries.data(), entries.size(), poll_timeout_ms(std::min(again, limit)));
    for (Attempt& attempt : attempts) {
      if (attempt.socket && advance(attempt)) return std::move(attempt.socket);
    }
  }
  std::string tried;
  for (const Attempt& attempt : attempts) {
    tried +=
        fmt::format("{}{} ({})", tried.empty() ? "" : ", ", attempt.address.to_string(), attempt.trouble);
  }
  return Status(Code::timeout,
                fmt::format("the launcher answers at none of its addresses: {}; check that the job's hosts "
                            "can connect to each other, or choose interfaces with --network-interfaces",
                            tried));
}

/// Unsets the variables of the Slurm step: they describe this process, but the ranks would use them.
void forget_step() {
  std::vector<std::string> names;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    if (text.starts_with("SLURM_") || text.starts_with("PMI_") || text.starts_with("PMI2_") ||
        text.starts_with("PMIX_"))
      names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

struct Connected {
  Fd socket;
  std::string job_key;
};

Result<Connected> connect_to_launcher(const std::string& host) {
  DABKE_ASSIGN_OR_RETURN(const DialMessage message, read_message());
  const auto place = std::ranges::find(message.hosts, host);
  if (place == message.hosts.end()) {
    return Status(Code::invalid_argument,
                  fmt::format("SLURMD_NODENAME is '{}', which is not one of the job's hosts: {}", host,
                              fmt::join(message.hosts, ", ")));
  }
  const auto number = number_of_host(static_cast<std::size_t>(place - message.hosts.begin()));
  DABKE_ASSIGN_OR_RETURN(const links::Handshake::Self self,
                         dialling_self(message.job_id, message.job_key, number));
  DABKE_ASSIGN_OR_RETURN(Fd socket, dial(message, self));
  return Connected{std::move(socket), message.job_key};
}

}  // namespace

int run_agent_by_dialling() {
  const InheritedState inherited = prepare_process();
  const std::string host = process_environment()("SLURMD_NODENAME").value_or("");
  auto connected = connect_to_launcher(host);
  if (!connected.is_ok()) {
    const std::string speaker = host.empty() ? "dabkerun --agent --dial" : "host " + host;
    fmt::print(stderr, "{}: {}\n", speaker, connected.status().message());
    return 1;
  }
  forget_step();
  AgentStart start{.in = duplicate_of(connected->socket.get()),
                   .out = std::move(connected->socket),
                   .outputs = {},
                   .input = Fd(),
                   .inherited = inherited,
                   .job_key = connected->job_key};
  if (!start.in || !start.out || !stand_in_null({STDIN_FILENO, STDOUT_FILENO})) return 1;
  return run_agent(std::move(start));
}

}  // namespace dabke::launcher

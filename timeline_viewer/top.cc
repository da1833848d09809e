#include "timeline_viewer/top.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/clock.h"
#include "runtime/base/terminal.h"
#include "runtime/base/threads/owned.h"
#include "runtime/diagnosis/live/job_figures.h"
#include "runtime/diagnosis/live/live_statistics_ticket.h"
#include "runtime/links/frame.h"
#include "runtime/links/handshake_io.h"
#include "runtime/links/network.h"
#include "timeline_viewer/job_address.h"

namespace dabke::viewer {
namespace {

using namespace std::chrono_literals;

/// The time for the connection and the handshake together.
constexpr Duration kConnectTime = 5s;
/// The longest silence. Figures come once a second, and rank 0's coordinator thread
/// hands them over within two.
constexpr Duration kSilence = 15s;
constexpr std::string_view kHow =
    "start the job with DABKE_TOP=0 (dabkerun --top-port 0), or any port instead of 0";

bool wait_for(int fd, short events, TimePoint deadline) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, poll_timeout_ms(deadline)) > 0;
}

/// Returns the tickets of the jobs that are running. A job that was killed leaves its file, which is removed
/// here if no program answers at its address.
std::vector<diagnosis::LiveStatisticsTicket> tickets_in(const std::string& directory) {
  std::vector<diagnosis::LiveStatisticsTicket> tickets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (!entry.path().filename().string().starts_with(diagnosis::kLookFilePrefix)) continue;
    auto ticket = diagnosis::read_ticket(entry.path());
    if (!ticket) continue;
    if (connect_to_job(ticket->address, Clock::now() + kConnectTime).status().code() == Code::peer_lost) {
      ::unlink(entry.path().c_str());
      continue;
    }
    tickets.push_back(ticket.take());
  }
  return tickets;
}

/// Returns the ticket that rank 0 has left for this address. If there is none for a loopback address, the
/// port alone decides.
Result<diagnosis::LiveStatisticsTicket> ticket_for(const std::string& address, const std::string& directory) {
  DABKE_ASSIGN_OR_RETURN(const std::vector<links::SocketAddress> wanted, resolve_job_address(address));
  for (const links::SocketAddress& one : wanted) {
    const std::string file = fmt::format("{}/{}", directory, diagnosis::look_file_name(one.to_string()));
    if (std::filesystem::exists(file)) return diagnosis::read_ticket(file);
  }
  if (std::ranges::all_of(wanted, &links::SocketAddress::is_loopback)) {
    for (const diagnosis::LiveStatisticsTicket& ticket : tickets_in(directory)) {
      const auto its = links::SocketAddress::parse(ticket.address);
      if (its && its->port() == wanted.front().port()) return ticket;
    }
  }
  const std::string name = diagnosis::look_file_name(wanted.front().to_string());
  return Status(Code::invalid_argument, fmt::format("no key for {} in {}; copy {} from there on the host of "
                                                    "rank 0, with mode 0600, and give it with --key-file",
                                                    address, directory, name));
}

Result<diagnosis::LiveStatisticsTicket> ticket_of(const TopOptions& options) {
  if (!options.key_file.empty()) {
    DABKE_ASSIGN_OR_RETURN(diagnosis::LiveStatisticsTicket ticket, diagnosis::read_ticket(options.key_file));
    if (!options.address.empty()) ticket.address = options.address;
    return ticket;
  }
  DABKE_ASSIGN_OR_RETURN(const std::string directory, diagnosis::look_directory());
  if (!options.address.empty()) return ticket_for(options.address, directory);
  const auto tickets = tickets_in(directory);
  if (tickets.size() == 1) return tickets.front();
  if (tickets.empty())
    return Status(Code::invalid_argument,
                  fmt::format("found no running job: {} has no key of one; {}", directory, kHow));
  std::string known;
  for (const diagnosis::LiveStatisticsTicket& ticket : tickets)
    known += (known.empty() ? "" : ", ") + ticket.address;
  return Status(Code::invalid_argument, fmt::format("there are several jobs; name one of {}", known));
}

Status shake_hands(int fd, const diagnosis::LiveStatisticsTicket& ticket, TimePoint deadline) {
  DABKE_ASSIGN_OR_RETURN(links::Handshake handshake,
                         links::Handshake::connect(ticket.handshake_of(diagnosis::kLooker), 0));
  while (!handshake.done() || !handshake.outgoing().empty()) {
    const links::HandshakeTurn turn = links::converse_over(fd, handshake);
    if (!turn.ended.is_ok() || handshake.failed()) {
      const std::string why = turn.ended.is_ok() ? "it refused" : turn.ended.message();
      return {Code::mismatch, fmt::format("{} refused the connection ({}): the key belongs to another job or "
                                          "an earlier start, or the process there is not rank 0",
                                          ticket.address, why)};
    }
    if (handshake.done() && handshake.outgoing().empty()) break;
    const short events = static_cast<short>(handshake.outgoing().empty() ? POLLIN : POLLIN | POLLOUT);
    if (!wait_for(fd, events, deadline))
      return {Code::timeout, fmt::format("{} does not answer; is it rank 0 of a job?", ticket.address)};
  }
  return {};
}

class Screen final : public links::FrameSink {
 public:
  explicit Screen(const TopOptions& options) : options_(options) {}

  void on_frame(std::span<const std::byte> frame) override {
    if (is_done()) return;
    const std::string text(reinterpret_cast<const char*>(frame.data()), frame.size());
    auto job = diagnosis::parse_figures(text);
    if (!job) {
      failure_ = job.status();
      return;
    }
    ++frames_;
    if (options_.json) {
      print(text + "\n");
    } else {
      table_.take(job.take());
      if (!options_.once || frames_ > 1) draw();
    }
  }
  /// The table shows rates, which need two messages.
  bool is_done() const {
    return !failure_.is_ok() || (options_.once && frames_ >= (options_.json ? 1U : 2U));
  }
  const Status& failure() const { return failure_; }

 private:
  void draw() {
    const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
    const TerminalSize size = is_terminal ? terminal_size(STDOUT_FILENO) : TerminalSize{400, 4000};
    std::string text = is_terminal && !options_.once ? "\x1b[H\x1b[J" : "";
    for (const std::string& line : table_.lines(size.columns - 1, size.rows - 1)) text += line + "\n";
    if (!is_terminal && !options_.once) text += "\n";
    print(text);
  }
  void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      failure_ = Status(Code::transport, "cannot write to stdout");
  }

  const TopOptions& options_;
  diagnosis::FiguresTable table_;
  std::uint64_t frames_ = 0;
  Status failure_;
};

}  // namespace

Status look_at_job(const TopOptions& options) {
  DABKE_ASSIGN_OR_RETURN(const diagnosis::LiveStatisticsTicket ticket, ticket_of(options));
  const TimePoint deadline = Clock::now() + kConnectTime;
  DABKE_ASSIGN_OR_RETURN(const Fd socket, connect_to_job(ticket.address, deadline));
  DABKE_RETURN_IF_ERROR(shake_hands(socket.get(), ticket, deadline));
  Screen screen(options);
  links::FrameDecoder frames;
  while (!screen.is_done()) {
    if (!wait_for(socket.get(), POLLIN, Clock::now() + kSilence))
      return {Code::timeout,
              fmt::format("{} sent nothing for {} s: rank 0 is stopped, or its host is gone", ticket.address,
                          std::chrono::duration_cast<std::chrono::seconds>(kSilence).count())};
    const auto room = frames.writable();
    const ssize_t got = ::recv(socket.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return {};  // the job has ended
    frames.commit(static_cast<std::size_t>(got));
    DABKE_RETURN_IF_ERROR(frames.deliver(screen));
  }
  return screen.failure();
}

}  // namespace dabke::viewer

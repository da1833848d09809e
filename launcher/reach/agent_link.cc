#include "launcher/reach/agent_link.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "launcher/agent_protocol/greeting.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// The number of bytes of a shell's output before the agent that are kept, to be shown if no agent comes.
constexpr std::size_t kShown = 4096;
/// The process that starts an agent ends soon after it.
constexpr auto kFarewell = 3s;

void keep_end(std::string& text, std::size_t size) {
  if (text.size() > size) text.erase(0, text.size() - size);
}

std::int64_t launcher_now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

}  // namespace

AgentLink::AgentLink(std::string host, PrepareMessage order, Duration arrival_limit)
    : host_(std::move(host)),
      peer_timeout_ms_(order.peer_timeout_ms),
      arrival_limit_(arrival_limit),
      order_(std::move(order)),
      connections_(channel_) {}

void AgentLink::start(AgentProcess process) {
  command_ = std::move(process.command);
  is_local_ = command_.empty();
  process_ = WatchedProcess(process.pid, std::move(process.words));
  phase = Phase::arriving;
  if (!is_local()) arrives_until_ = Clock::now() + arrival_limit_;
  channel_.open(std::move(process.in), std::move(process.out));
}

void AgentLink::await(std::string command) {
  command_ = std::move(command);
  phase = Phase::arriving;
  arrives_until_ = Clock::now() + arrival_limit_;
}

void AgentLink::await(AgentProcess process, const DialMessage& message) {
  start(std::move(process));
  channel_.send(kDialFrame, to_wire(message));
}

void AgentLink::arrive(Fd socket) {
  Fd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
  if (copy) channel_.open(std::move(copy), std::move(socket));
  heard_at_ = Clock::now();
}

AgentLink::~AgentLink() { close(); }

void AgentLink::add_poll_entries(std::vector<pollfd>& entries) const {
  if (process_.words_fd() >= 0) entries.push_back({process_.words_fd(), POLLIN, 0});
  if (!is_open()) return;
  channel_.add_poll_entries(entries);
  connections_.add_poll_entries(entries);
}

bool AgentLink::handle(const pollfd& entry) {
  if (entry.revents == 0) return true;
  if (process_.words_fd() >= 0 && entry.fd == process_.words_fd()) process_.read_words();
  if (!is_open()) return true;
  connections_.handle(entry);
  if ((entry.revents & POLLOUT) != 0) channel_.flush();
  if (entry.fd != channel_.in() || (entry.revents & ~POLLOUT) == 0) return true;
  const bool is_there = channel_.read();
  heard_at_ = Clock::now();
  if (phase == Phase::arriving && !take_greeting()) return false;
  return is_there && !channel_.is_broken();
}

/// False if the greeting is of another version.
bool AgentLink::take_greeting() {
  auto greeting = launcher::take_greeting(channel_.raw(), before_);
  keep_end(before_, kShown);
  if (!greeting) return true;
  if (greeting->version != agent_version()) {
    other_version_ = std::move(greeting->version);
    return false;
  }
  machine_ = std::move(greeting->machine);
  phase = Phase::greeted;
  if (!is_local()) beat_at_ = Clock::now();
  return true;
}

void AgentLink::send_order() {
  phase = Phase::preparing;
  if (!is_local()) arrives_until_ = Clock::now() + arrival_limit_;
  send(FrameKind::prepare, std::exchange(order_, {}));
}

TimePoint AgentLink::deadline() const {
  if (!is_open()) return kNever;
  const TimePoint arrival = is_under_way() ? arrives_until_ : kNever;
  return std::min({arrival, beat_at_, silent_until()});
}

/// An agent that has not answered yet is late, not silent.
TimePoint AgentLink::silent_until() const {
  if (beat_at_ == kNever || peer_timeout_ms_ <= 0) return kNever;
  return heard_at_ + std::chrono::milliseconds(peer_timeout_ms_);
}

bool AgentLink::keep_beating() {
  if (!is_open() || beat_at_ == kNever) return true;
  const TimePoint now = Clock::now();
  if (now >= silent_until()) return false;
  if (now < beat_at_) return true;
  send(FrameKind::beat, ClockMessage{launcher_now_ns(), 0, 0});
  beat_at_ = now + beat_interval(std::chrono::milliseconds(peer_timeout_ms_));
  return true;
}

void AgentLink::take_clock(const ClockMessage& clock) {
  const std::int64_t now = launcher_now_ns();
  const std::int64_t trip = now - clock.asked_ns;
  if (trip < 0 || trip > shortest_trip_ns_) return;
  shortest_trip_ns_ = trip;
  clock_ahead_ns_ = clock.time_ns - (clock.asked_ns + trip / 2);
}

void AgentLink::hold(bool is_error_output, bool is_held) {
  if (std::exchange(is_held_[is_error_output ? 1 : 0], is_held) == is_held) return;
  send(FrameKind::hold, HoldMessage{is_error_output, is_held});
}

void AgentLink::kill_process() const { process_.send(SIGKILL); }

void AgentLink::hang_up() {
  if (phase != Phase::lost) phase = Phase::closed;
  channel_.close();
}

void AgentLink::close(TimePoint limit) {
  hang_up();
  if (process_.wait_until(is_local() ? limit : std::min(limit, Clock::now() + kFarewell))) return;
  kill_process();
  process_.wait_until(kNever);
}

std::vector<std::string> AgentLink::words() const {
  std::vector<std::string> lines = non_empty_lines(before_);
  for (std::string& line : non_empty_lines(process_.words())) lines.push_back(std::move(line));
  return lines;
}

}  // namespace dabke::launcher

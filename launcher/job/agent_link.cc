#include "launcher/job/agent_link.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "launcher/agent/greeting.h"
#include "launcher/job/outcome.h"

namespace dabke {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeat = 1s;
/// What a shell prints before the agent comes is shown when none comes; so much of it, and of the words.
constexpr std::size_t kShown = 4096;
/// A process that brings an agent ends soon after it.
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
  process_ = std::move(process);
  phase = Phase::arriving;
  if (!is_local()) arrives_until_ = Clock::now() + arrival_limit_;
  channel_.open(std::move(process_.in), std::move(process_.out));
}

void AgentLink::await(std::string command) {
  process_.command = std::move(command);
  phase = Phase::arriving;
  arrives_until_ = Clock::now() + arrival_limit_;
}

void AgentLink::arrive(Fd socket) {
  Fd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
  if (copy) channel_.open(std::move(copy), std::move(socket));
  heard_at_ = Clock::now();
}

AgentLink::~AgentLink() { close(); }

void AgentLink::add_poll_entries(std::vector<pollfd>& entries) const {
  if (process_.words) entries.push_back({process_.words.get(), POLLIN, 0});
  if (!is_open()) return;
  channel_.add_poll_entries(entries);
  connections_.add_poll_entries(entries);
}

bool AgentLink::handle(const pollfd& entry) {
  if (entry.revents == 0) return true;
  if (process_.words && entry.fd == process_.words.get()) read_words();
  if (!is_open()) return true;
  connections_.handle(entry);
  if ((entry.revents & POLLOUT) != 0) channel_.flush();
  if (entry.fd != channel_.in() || (entry.revents & ~POLLOUT) == 0) return true;
  const bool is_there = channel_.read();
  heard_at_ = Clock::now();
  if (phase == Phase::arriving && !take_greeting()) return false;
  return is_there && !channel_.is_broken();
}

/// False when what has come is of another version.
bool AgentLink::take_greeting() {
  auto greeting = dabke::take_greeting(channel_.raw(), before_);
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
  tell(FrameKind::prepare, std::exchange(order_, {}));
}

void AgentLink::read_words() {
  std::array<char, kShown> chunk;
  const ssize_t got = ::read(process_.words.get(), chunk.data(), chunk.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    process_.words = Fd();
    return;
  }
  words_.append(chunk.data(), static_cast<std::size_t>(got));
  keep_end(words_, kShown);
}

TimePoint AgentLink::deadline() const {
  if (!is_open()) return kNever;
  const TimePoint arrival = is_under_way() ? arrives_until_ : kNever;
  return std::min({arrival, beat_at_, silent_until()});
}

/// An agent that answers nothing yet is late, not silent.
TimePoint AgentLink::silent_until() const {
  if (beat_at_ == kNever || peer_timeout_ms_ <= 0) return kNever;
  return heard_at_ + std::chrono::milliseconds(peer_timeout_ms_);
}

bool AgentLink::keep_beating() {
  if (!is_open() || beat_at_ == kNever) return true;
  const TimePoint now = Clock::now();
  if (now >= silent_until()) return false;
  if (now < beat_at_) return true;
  tell(FrameKind::beat, ClockMessage{launcher_now_ns(), 0});
  beat_at_ = now + kBeat;
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
  tell(FrameKind::hold, HoldMessage{is_error_output, is_held});
}

void AgentLink::kill_process() const {
  if (process_.pid > 0) ::kill(process_.pid, SIGKILL);
}

void AgentLink::close() {
  if (phase != Phase::lost) phase = Phase::closed;
  channel_.close();
  if (process_.pid <= 0) return;
  int status = 0;
  const TimePoint limit = Clock::now() + kFarewell;
  pid_t ended = ::waitpid(process_.pid, &status, is_local() ? 0 : WNOHANG);
  for (; ended == 0 && Clock::now() < limit; ended = ::waitpid(process_.pid, &status, WNOHANG)) {
    pollfd words{process_.words.get(), POLLIN, 0};
    // Its end of file is its end, as a rule; where it is not, this is a pause.
    if (::poll(&words, process_.words ? 1 : 0, 10) > 0) read_words();
  }
  if (ended == 0) {
    kill_process();
    ended = ::waitpid(process_.pid, &status, 0);
  }
  process_.pid = -1;
  while (process_.words) {
    pollfd words{process_.words.get(), POLLIN, 0};
    if (::poll(&words, 1, 0) <= 0) break;
    read_words();
  }
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string AgentLink::how_it_ended() const {
  return exit_code_ > 128 ? fmt::format("was killed by {}", signal_name(exit_code_ - 128))
                          : fmt::format("ended with status code {}", exit_code_);
}

std::vector<std::string> AgentLink::words() const {
  std::vector<std::string> lines;
  for (const std::string* text : {&before_, &words_}) {
    std::istringstream in(*text);
    for (std::string line; std::getline(in, line);) {
      std::erase(line, '\r');
      if (!line.empty()) lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace dabke

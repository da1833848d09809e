#include "launcher/elastic/discovery.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "launcher/reach/remote_shell.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// The time that a script may take to end after it has closed its output.
constexpr auto kFarewell = 200ms;
/// More than any list of hosts takes.
constexpr std::size_t kLongestList = std::size_t{1} << 20;

}  // namespace

Discovery::~Discovery() {
  if (!is_running_) return;
  process_.send(SIGKILL);
  process_.wait_until(kNever);
}

void Discovery::add_poll_entries(std::vector<pollfd>& entries) const {
  if (!is_running_) return;
  if (output_) entries.push_back({output_.get(), POLLIN, 0});
  if (process_.words_fd() >= 0) entries.push_back({process_.words_fd(), POLLIN, 0});
}

void Discovery::handle(const pollfd& entry) {
  if (!is_running_ || entry.revents == 0) return;
  if (process_.words_fd() >= 0 && entry.fd == process_.words_fd()) process_.read_words();
  if (!output_ || entry.fd != output_.get()) return;
  std::array<char, 4096> chunk;
  const ssize_t got = ::read(output_.get(), chunk.data(), chunk.size());
  if (got < 0 && errno == EINTR) return;
  if (got > 0 && list_.size() < kLongestList) {
    list_.append(chunk.data(), static_cast<std::size_t>(got));
    return;
  }
  finish(Clock::now());
}

TimePoint Discovery::deadline() const { return is_running_ ? ends_at_ : start_at_; }

void Discovery::tick(TimePoint now) {
  if (is_running_ && now >= ends_at_) {
    process_.send(SIGKILL);
    finish(now);
  } else if (!is_running_ && now >= start_at_) {
    start(now);
  }
}

void Discovery::start(TimePoint now) {
  start_at_ = now + settings_.interval;
  auto process = start_shell({"/bin/sh", "-c", settings_.script});
  if (!process.is_ok()) return fail(process.status().message());
  process_ = WatchedProcess(process->pid, std::move(process->words));
  output_ = std::move(process->in);
  process->out = Fd();  // its standard input
  list_.clear();
  is_running_ = true;
  ends_at_ = now + settings_.limit;
}

void Discovery::finish(TimePoint now) {
  const bool is_late = now >= ends_at_;
  is_running_ = false;
  output_ = Fd();
  if (!process_.wait_until(now + kFarewell)) {
    process_.send(SIGKILL);
    process_.wait_until(kNever);
  }
  if (is_late)
    return fail(fmt::format("no list within {:g} s", std::chrono::duration<double>(settings_.limit).count()));
  if (process_.exit_code() == 0) return take_list();
  const std::vector<std::string> words = non_empty_lines(process_.words());
  fail(fmt::format("it {}{}{}", process_.how_it_ended(), words.empty() ? "" : ": ",
                   words.empty() ? "" : words.back()));
}

void Discovery::take_list() {
  std::vector<Host> hosts;
  if (list_.find_first_not_of(" \t\r\n") != std::string::npos) {
    auto parsed = parse_hostfile(list_, "its output", settings_.slots_per_host);
    if (!parsed.is_ok()) return fail(parsed.status().message());
    hosts = merge_hosts(*parsed);
  }
  trouble_.clear();
  if (hosts_ == hosts) return;
  hosts_ = new_hosts_ = std::move(hosts);
}

void Discovery::fail(const std::string& why) {
  if (std::exchange(trouble_, why) != why) new_trouble_ = why;
}

std::optional<std::vector<Host>> Discovery::take_hosts() { return std::exchange(new_hosts_, std::nullopt); }

std::string Discovery::take_trouble() {
  if (std::exchange(new_trouble_, {}).empty()) return {};
  return fmt::format("{}; {}", trouble(), hosts_ ? "the last list stays" : "it is tried again");
}

std::string Discovery::trouble() const {
  return trouble_.empty() ? "" : fmt::format("--host-discovery-script {}: {}", settings_.script, trouble_);
}

}  // namespace dabke::launcher

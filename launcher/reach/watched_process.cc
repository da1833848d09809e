#include "launcher/reach/watched_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "launcher/verdict/outcome.h"

namespace dabke::launcher {
namespace {

/// The most bytes of stderr that are kept.
constexpr std::size_t kKeptWords = 4096;
constexpr int kPauseMs = 10;

}  // namespace

WatchedProcess::WatchedProcess(pid_t pid, Fd words) : pid_(pid), words_(std::move(words)) {}

void WatchedProcess::read_words() {
  std::array<char, kKeptWords> chunk;
  const ssize_t got = ::read(words_.get(), chunk.data(), chunk.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    words_ = Fd();
    return;
  }
  said_.append(chunk.data(), static_cast<std::size_t>(got));
  if (said_.size() > kKeptWords) said_.erase(0, said_.size() - kKeptWords);
}

bool WatchedProcess::has_ended(int options) {
  int status = 0;
  if (pid_ <= 0) return true;
  const pid_t ended = ::waitpid(pid_, &status, options);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  pid_ = -1;
  was_killed_ = ended > 0 && WIFSIGNALED(status);
  exit_code_ = was_killed_ ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

bool WatchedProcess::wait_until(TimePoint limit) {
  const bool blocks = limit == kNever && !words_;
  while (!has_ended(blocks ? 0 : WNOHANG)) {
    if (Clock::now() >= limit) return false;
    pollfd words{words_.get(), POLLIN, 0};
    // Usually stderr ends with the process; otherwise this is a pause.
    if (::poll(&words, words_ ? 1 : 0, kPauseMs) > 0) read_words();
  }
  while (words_) {
    pollfd words{words_.get(), POLLIN, 0};
    if (::poll(&words, 1, 0) <= 0) break;
    read_words();
  }
  return true;
}

void WatchedProcess::send(int signal) const {
  if (pid_ <= 0) return;
  if (::kill(-pid_, signal) != 0) ::kill(pid_, signal);
}

std::string WatchedProcess::how_it_ended() const {
  return was_killed_ ? fmt::format("was killed by {}", signal_name(exit_code_ - 128))
                     : fmt::format("exited with status code {}", exit_code_);
}

std::vector<std::string> non_empty_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::erase(line, '\r');
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

}  // namespace dabke::launcher

#include "report.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

namespace storm {
namespace {

constexpr std::size_t kMostShown = 12;
// All ranks hang at nearly the same time. The first one that ends also ends the
// others, so they need time to report first.
constexpr std::chrono::seconds kLastWords{2};

struct State {
  std::string speaker = "storm: ";
  std::mutex mutex;  // guards the members below
  std::map<unsigned long long, std::string> pending;
  unsigned long long ids = 0;
  unsigned long long changes = 0;
};
State& state() {
  static State& one = *new State;  // threads may end after main
  return one;
}

void say(const std::string& text) {
  const std::string line = state().speaker + text + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) std::_Exit(4);
}

void watch(std::chrono::seconds patience) {
  unsigned long long seen = 0;
  for (auto since = std::chrono::steady_clock::now();;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto now = std::chrono::steady_clock::now();
    std::string text;
    {
      const std::lock_guard lock(state().mutex);
      if (state().changes != seen) {
        seen = state().changes;
        since = now;
      }
      if (now - since < patience) continue;
      text = "HANG: nothing has begun or ended for " + std::to_string(patience.count()) + " s; " +
             std::to_string(state().pending.size()) + " pending:";
      std::size_t shown = 0;
      for (const auto& [id, what] : state().pending) {
        if (shown++ == kMostShown) break;
        text += "\n    " + what;
      }
    }
    say(text);
    std::this_thread::sleep_for(kLastWords);
    std::_Exit(3);
  }
}

}  // namespace

void set_speaker(unsigned long long seed, int rank) {
  state().speaker = "storm: seed " + std::to_string(seed) + ", rank " + std::to_string(rank) + ": ";
}

void wrong(const std::string& text) {
  say(text);
  std::_Exit(1);
}

Pending::Pending(std::string text) {
  const std::lock_guard lock(state().mutex);
  ++state().changes;
  id_ = ++state().ids;
  state().pending.emplace(id_, std::move(text));
}

Pending::~Pending() {
  const std::lock_guard lock(state().mutex);
  ++state().changes;
  state().pending.erase(id_);
}

void start_watchdog(int patience_seconds) {
  std::thread(watch, std::chrono::seconds(patience_seconds)).detach();
}

}  // namespace storm

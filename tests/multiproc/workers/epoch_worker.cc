// One process of an elastic job, for the tests of real processes. Each step adds the number of ranks to the
// state, and is a commit. The arguments are the number of steps, and the time of a step in microseconds (0).
// With a third one, the program itself records a timeline with that name, anew in each epoch. All ranks end
// after the same step once rank 0 sees the file whose name is in TEST_STOP_FILE. Each later epoch begins with
// a dump into the file whose name is in TEST_DUMP_FILE.
//
// Prints its slot and its process id, a line for each epoch, and one at the end:
//   slot localhost:0 is pid 4711
//   epoch 2 rank 0 of 3 former 1,2,3 newest 17 holders 0,1,2 lost 0:a:killed by SIGKILL after 12.5 ms
//   done 100 sum 320 left -
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "dabke/dabke.hpp"

namespace {

using Clock = std::chrono::steady_clock;

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text.empty() ? "-" : text;
}

void describe(const dabke::Epoch& epoch, Clock::time_point since) {
  std::string lost;
  for (const dabke::LostRank& one : epoch.lost)
    lost += (lost.empty() ? "" : ";") + std::to_string(one.rank) + ":" + one.host + ":" + one.why;
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - since).count();
  say("epoch " + std::to_string(epoch.number) + " rank " + std::to_string(epoch.rank) + " of " +
      std::to_string(epoch.size) + " former " + list_of(epoch.former_ranks) + " newest " +
      (epoch.newest_commit ? std::to_string(*epoch.newest_commit) : "-") + " holders " +
      list_of(epoch.holders) + " lost " + (lost.empty() ? "-" : lost) + " after " + std::to_string(ms) +
      " ms");
}

/// The state of a process that trains, and its newest commit.
struct State {
  std::uint64_t commit = 0;
  bool has_commit = false;
  bool is_done = false;  // in the same step on all ranks
  float sum = 0;
};

/// Every rank gets the state of the first holder.
void sync(const dabke::Epoch& epoch, State& state) {
  if (!epoch.newest_commit) return;
  float sum = state.sum;
  dabke::broadcast("state", dabke::Tensor(&sum, {1}), {.root_rank = epoch.holders.front()});
  state = {*epoch.newest_commit, true, false, sum};
}

bool is_asked_to_stop() {
  const char* const file = std::getenv("TEST_STOP_FILE");
  return file != nullptr && dabke::rank() == 0 && access(file, F_OK) == 0;
}

/// Runs steps until all are done, or the hosts change. `x` is memory of dabke_alloc for two numbers, used in
/// all epochs.
void train(State& state, std::uint64_t steps, useconds_t pause, float* x) {
  state.is_done = state.commit >= steps;
  while (!state.is_done && dabke::announced_changes() == 0) {
    x[0] = 1;
    x[1] = is_asked_to_stop() ? 1 : 0;
    dabke::allreduce("x", dabke::Tensor(x, {2}), {.op = DABKE_SUM});
    state = {state.commit + 1, true, x[1] > 0 || state.commit + 1 >= steps, state.sum + x[0]};
    if (pause > 0) usleep(pause);
  }
}

/// An operation that rank 0 alone submits, so it is pending at the end of the epoch.
class Lonely {
 public:
  void begin() {
    if (dabke::rank() == 0 && dabke::size() > 1)
      handle_ = dabke::allreduce_async("lonely", dabke::Tensor(&value_, {1}));
  }
  /// Throws if it has not ended with an error, although its epoch is over.
  void end() {
    if (!handle_) return;
    const dabke_status status = dabke_handle_status(handle_->c());
    if (status == DABKE_OK || status == DABKE_IN_PROGRESS)
      throw std::runtime_error(std::string("a pending operation is ") + dabke_status_name(status));
    handle_.reset();
  }

 private:
  float value_ = 1;
  std::optional<dabke::Handle> handle_;
};

/// Throws if the call has failed.
void must(dabke_status status) {
  if (status != DABKE_OK) throw dabke::Error(status, dabke_last_error());
}

void end(const State& state, const std::string& left) {
  say("done " + std::to_string(state.commit) + " sum " + std::to_string(static_cast<long>(state.sum)) +
      " left " + left);
}

/// Goes to the next epoch. False if this process has left the job.
bool go_on(State& state) {
  const auto since = Clock::now();
  const dabke::Epoch epoch = dabke::next_epoch(state.has_commit ? std::optional(state.commit) : std::nullopt);
  if (!epoch.left) {
    describe(epoch, since);
    return true;
  }
  end(state, *epoch.left);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const auto steps = static_cast<std::uint64_t>(std::atoll(argc > 1 ? argv[1] : "100"));
  const auto pause = static_cast<useconds_t>(argc > 2 ? std::atoi(argv[2]) : 0);
  const char* const timeline = argc > 3 ? argv[3] : nullptr;
  say("slot " + variable("DABKE_HOSTNAME") + ":" + variable("DABKE_LOCAL_RANK") + " is pid " +
      std::to_string(getpid()));
  // A process with much memory takes long to end.
  const std::vector<char> memory(
      static_cast<std::size_t>(std::atoi(variable("TEST_MEMORY_MB").c_str())) << 20U, '\1');
  try {
    const auto since = Clock::now();
    const dabke::Session session;
    State state;
    Lonely lonely;
    auto* const x = static_cast<float*>(dabke_alloc(2 * sizeof(float)));
    describe(dabke::current_epoch(), since);
    while (true) {
      try {
        lonely.begin();
        if (timeline != nullptr) must(dabke_start_timeline(timeline, 0));
        sync(dabke::current_epoch(), state);
        train(state, steps, pause, x);
        if (state.is_done) {
          if (timeline != nullptr) must(dabke_stop_timeline());
          break;
        }
      } catch (const dabke::Error& error) {
        say("error " + std::string(dabke_status_name(error.status())));
      }
      if (!go_on(state)) return 0;
      lonely.end();
      if (const std::string file = variable("TEST_DUMP_FILE"); !file.empty()) must(dabke_dump(file.c_str()));
    }
    dabke_free(x);
    end(state, "-");
    return 0;
  } catch (const std::exception& error) {
    say(std::string("failed: ") + error.what());
    return 1;
  }
}

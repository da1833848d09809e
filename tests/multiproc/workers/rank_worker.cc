// One rank for the tests of real processes. The first argument names its behaviour.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "dabke/dabke.hpp"

namespace {

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

/// Waits for the test to kill it.
[[noreturn]] void wait_for_the_end() {
  say("ready");
  while (true) pause();
}

int sums() {
  const int n = dabke::size();
  for (int round = 0; round < 20; ++round) {
    std::vector<float> x(1000 + static_cast<std::size_t>(round));
    std::iota(x.begin(), x.end(), static_cast<float>(dabke::rank()));
    dabke::allreduce("x", x, {.op = DABKE_SUM});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float want = static_cast<float>(n) * static_cast<float>(i) + static_cast<float>(n * (n - 1)) / 2;
      if (x[i] != want) {
        say("wrong sum");
        return 1;
      }
    }
  }
  dabke::barrier();
  say("sums are right");
  return 0;
}

/// Runs long enough for several comparisons of the clocks.
int marked_steps() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(12);
  std::vector<float> x(100, 1), goes_on(1);
  for (std::uint64_t step = 0;; ++step) {
    dabke::allreduce("x", x);
    goes_on[0] = std::chrono::steady_clock::now() < end ? 1 : 0;
    dabke::broadcast("goes on", goes_on);
    dabke::mark_step(step);
    if (goes_on[0] == 0) return 0;
    usleep(5000);
  }
}

/// "slow-rank-2-40": 40 steps, to each of which rank 2 comes 30 ms late. Without numbers: the last rank,
/// without end.
int slow_rank(const std::string& what) {
  int slow = dabke::size() - 1, steps = 1'000'000;
  (void)std::sscanf(what.c_str(), "slow-rank-%d-%d", &slow, &steps);
  std::vector<float> gradient(250'000, 1), bias(100, 1);
  for (int step = 0; step < steps; ++step) {
    if (dabke::rank() == slow) usleep(30'000);
    dabke::Handle small = dabke::allreduce_async("bias", bias);
    dabke::allreduce("gradient", gradient);
    small.wait();
    dabke::mark_step(static_cast<std::uint64_t>(step));
    if (step == 10) say("it steps");
  }
  return 0;
}

/// The last rank becomes a victim; the other ranks wait for it.
int victim(const std::string& kind) {
  // On a busy machine, dabkerun would end the survivors before they have printed their errors.
  if (kind == "killed") std::signal(SIGTERM, SIG_IGN);
  std::vector<float> x(16, 1);
  dabke::allreduce("together", x);
  if (dabke::rank() == dabke::size() - 1) {
    if (kind == "with-child") {
      if (const pid_t child = fork(); child == 0) {
        sleep(600);  // the test ends the child
        _exit(0);
      } else {
        say("child " + std::to_string(child));
      }
    }
    if (kind == "killed") kill(getpid(), SIGKILL);
    wait_for_the_end();
  }
  say("waiting");
  dabke::allreduce("waited for", x);
  return 0;
}

/// The last rank leaves with status 0 while the others still have a step to do.
int leaves_early(const std::string& kind) {
  std::vector<float> x(16, 1);
  dabke::allreduce("warm", x);
  if (dabke::rank() == dabke::size() - 1) {
    if (kind == "leaves-by-exit") std::exit(0);
    if (kind == "leaves-by-_exit") _exit(0);
    return 0;
  }
  dabke::allreduce("grad", x);
  return 0;
}

/// Large sums, one after the other. A single sum must not take as long as a stall, or it would be reported as
/// one.
int large(std::size_t elements) {
  std::vector<float> x(elements, 0);
  dabke::allreduce("warm", x);
  say("ready " + std::to_string(getpid()));
  for (int i = 0; i < 100000; ++i) dabke::allreduce("large", x);
  return 0;
}

/// Small calls without end, for a rank that is killed meanwhile. On SIGUSR1 the rank ends with an error of
/// its own.
int loop() {
  signal(SIGUSR1, [](int) { _exit(7); });
  std::vector<float> x(1000, 0);
  dabke::allreduce("x", x);
  say("pid " + std::to_string(getpid()) + " is ready");
  while (true) dabke::allreduce("x", x);
}

/// The second call begins only after the test has written to stdin.
int later(std::size_t bytes) {
  std::vector<float> x(bytes / sizeof(float), 1);
  dabke::allreduce("x", x);
  say("ready");
  char word = 0;
  if (read(STDIN_FILENO, &word, 1) != 1) return 1;
  for (int i = 0; i < 100000; ++i) dabke::allreduce("x", x);
  return 0;
}

int failed(const dabke::Error& error) {
  say(std::string("error ") + dabke_status_name(error.status()) + ": " + error.what());
  return 3;
}

/// Sums of 256 MB, again and again, for a rank that is killed meanwhile. Under a sanitizer they are smaller,
/// because 256 MB would take minutes.
template <class Vector>
int huge() {
  Vector x(HUGE_ELEMENTS, 0);
  dabke::allreduce("huge", x);
  say("ready");
  try {
    for (int i = 0; i < 100000; ++i) dabke::allreduce("huge", x);
  } catch (const dabke::Error& error) {
    return failed(error);  // printed before the memory is freed, which takes a while
  }
  return 0;
}

template <class T>
using Registered = std::vector<T, dabke::Allocator<T>>;

/// Memory allocated before the first job and used in two jobs, alone and beside other memory, with tensors
/// that come and go.
int registered() {
  Registered<float> kept(300'001);
  for (int job = 0; job < 2; ++job) {
    const dabke::Session session;
    const auto n = static_cast<float>(dabke::size());
    for (int step = 0; step < 20; ++step) {
      Registered<float> fresh(50'000 * static_cast<std::size_t>(1 + step % 4));
      std::vector<float> other(70'000);
      const auto fill = [&](auto& x) {
        std::iota(x.begin(), x.end(), static_cast<float>(dabke::rank() + step));
      };
      fill(kept), fill(fresh), fill(other);
      const std::vector<std::string> names = {"kept", "fresh" + std::to_string(step % 4), "other"};
      const std::vector<dabke::Tensor> tensors = {kept, fresh, other};
      dabke::grouped_allreduce_async(names, tensors, {.op = DABKE_SUM}).wait();
      const auto is_wrong = [&](auto& x) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (x[i] != n * (static_cast<float>(i) + static_cast<float>(step)) + n * (n - 1) / 2) return true;
        }
        return false;
      };
      if (is_wrong(kept) || is_wrong(fresh) || is_wrong(other)) return 1;
      const dabke::Handle gathered = dabke::allgather("gathered", kept);
      if (gathered.elements<float>().size() != kept.size() * static_cast<std::size_t>(dabke::size()))
        return 1;
      if (gathered.elements<float>().back() != kept.back()) return 1;
    }
  }
  say("sums are right");
  return 0;
}

int steps() {
  std::vector<float> x(64, 1);
  dabke::allreduce("first", x);
  say("ready");
  for (int i = 0; i < 200; ++i) {
    dabke::allreduce("step", x);
    usleep(10000);
  }
  say("done");
  return 0;
}

/// Rank 1 waits here, and not in the call of the other ranks. The test finds this function on its stack.
__attribute__((noinline)) void load_for_ever() {
  say("ready " + std::to_string(getpid()));
  while (true) pause();
}

/// Waits for twenty seconds in a call that any signal handler interrupts, as much code waits for its data.
__attribute__((noinline)) bool sleeps_in_full(const std::string& kind) {
  constexpr int kSeconds = 20;
  bool in_full = false;
  if (kind == "late-in-sleep") in_full = sleep(kSeconds) == 0;
  const timespec time{kSeconds, 0};
  if (kind == "late-in-nanosleep") in_full = nanosleep(&time, nullptr) == 0;
  if (kind == "late-in-poll") in_full = poll(nullptr, 0, kSeconds * 1000) == 0;
  if (kind == "late-in-select") {
    timeval left{kSeconds, 0};
    in_full = select(0, nullptr, nullptr, nullptr, &left) == 0;
  }
  if (kind == "late-in-epoll_wait") {
    epoll_event event{};
    const int queue = epoll_create1(EPOLL_CLOEXEC);
    in_full = epoll_wait(queue, &event, 1, kSeconds * 1000) == 0;
    close(queue);
  }
  return in_full;
}

int late(const std::string& kind) {
  if (kind == "late-stubborn") std::signal(SIGTERM, SIG_IGN);
  std::vector<float> x(16, 1);
  dabke::allreduce("together", x);
  if (dabke::rank() == 1 && kind == "late-elsewhere") dabke::allreduce("other", x);
  if (dabke::rank() == 1 && kind.starts_with("late-in-")) {
    say(sleeps_in_full(kind) ? "slept in full" : "the sleep was cut short");
  } else if (dabke::rank() == 1) {
    load_for_ever();
  }
  if (kind == "late-join") {
    say("waiting " + std::to_string(getpid()));
    dabke::join();
    return 0;
  }
  auto waited_for = dabke::allreduce_async("waited for", x);
  say("waiting " + std::to_string(getpid()));
  waited_for.wait();
  return 0;
}

bool is_stopped(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const auto end = text.rfind(')');
  return end != std::string::npos && text.compare(end, 3, ") T") == 0;
}

std::vector<int> pids_of_all() {
  std::vector<int> mine = {getpid()};
  const dabke::Handle gathered = dabke::allgather("pids", mine);
  const auto all = gathered.elements<int>();
  return {all.begin(), all.end()};
}

/// Rank 1 stops. Rank 0 waits for it until a check interrupts the wait, a second later. With `inside`, rank 1
/// has submitted, so that rank 0, the last rank, may run the collective itself.
int stopped_wait(bool inside) {
  const std::vector<int> pids = pids_of_all();
  const auto messages_sent = [] {
    dabke_statistics now{};
    now.struct_size = sizeof now;
    dabke_get_statistics(&now);
    return now.messages_sent;
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<float> x(16, 1);
    dabke::barrier();
    if (dabke::rank() == 1) {
      const auto sent = messages_sent();
      dabke::Handle pending;
      if (inside) pending = dabke::allreduce_async("x", x, {.op = DABKE_SUM});
      while (inside && messages_sent() == sent) usleep(100);
      raise(SIGSTOP);
      if (!inside) pending = dabke::allreduce_async("x", x, {.op = DABKE_SUM});
      pending.wait();
    } else {
      while (!is_stopped(pids[1])) usleep(100);
      const dabke::Handle pending = dabke::allreduce_async("x", x, {.op = DABKE_SUM});
      const auto begin = std::chrono::steady_clock::now();
      const auto seconds = [begin] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      };
      const pid_t thread = gettid();
      try {
        pending.wait_checking([&] { return gettid() != thread || seconds() > 1; });
        return 1;
      } catch (const dabke::Error& error) {
        say(std::string("stopped ") + dabke_status_name(error.status()) + ": " + error.what());
        if (seconds() > 30) return 1;
        const bool has_completed = pending.poll();  // read before the stopped rank can complete it
        kill(pids[1], SIGCONT);
        if (error.status() != DABKE_ERROR_INTERRUPTED) throw;
        if (has_completed) return 1;
      }
      pending.wait();
    }
    if (x[0] != 2) return 1;
    if (!inside) break;  // with `inside`, another round: the lane's thread may have run it
  }
  dabke::barrier();
  say("waited again");
  return 0;
}

int mismatch() {
  std::vector<double> x(dabke::rank() == 1 ? 3 : 2, 1);
  try {
    dabke::allreduce("odd", x);
    return 1;
  } catch (const dabke::Error& error) {
    say(error.what());
  }
  std::vector<double> y(2, 1);
  dabke::allreduce("even", y, {.op = DABKE_SUM});
  say(y[1] == dabke::size() ? "next is right" : "next is wrong");
  return 0;
}

/// The first message about these names is longer than MPI sends without the receiver's help.
int many_names() {
  constexpr std::size_t kNames = 4000;
  std::vector<float> x(kNames, 1);
  for (int round = 0; round < 2; ++round) {
    std::vector<dabke::Handle> handles;
    for (std::size_t i = 0; i < kNames; ++i) {
      const std::string name = "round " + std::to_string(round) + std::string(100, '.') + std::to_string(i);
      handles.push_back(dabke::allreduce_async(name, std::span(x).subspan(i, 1), {.op = DABKE_SUM}));
    }
    for (dabke::Handle& handle : handles) handle.wait();
  }
  const auto want = static_cast<float>(dabke::size() * dabke::size());
  if (std::count(x.begin(), x.end(), want) != static_cast<std::ptrdiff_t>(kNames)) return 1;
  say("names are right");
  return 0;
}

/// The number of times that the coordinator's thread has slept, or -1 if the thread has not begun. A thread
/// that waits does the coordinator's work, so on a busy machine that thread may begin after the first
/// collectives.
long sleeps_of_coordinator() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "dabke-coord") continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("voluntary_ctxt_switches:")) return std::stol(line.substr(line.find(':') + 1));
    }
  }
  return -1;
}

double cpu_milliseconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

/// Prints "idle" after a second of low processor time in which the coordinator had no work.
int idle() {
  std::vector<float> x(16, 1);
  dabke::allreduce("x", x);
  dabke::barrier();
  for (int i = 0; i < 40; ++i) {
    const long sleeps = sleeps_of_coordinator();
    const double before = cpu_milliseconds();
    sleep(1);
    const double used = cpu_milliseconds() - before;
    if (sleeps < 0 || sleeps_of_coordinator() != sleeps || used > 5) continue;
    say("idle");
    break;
  }
  dabke::barrier();
  return 0;
}

/// Jobs of some of the processes each, with other rank numbers each time. A process that is not in the next
/// jobs calls init for its own next job long before that job starts.
int renumbers() {
  const std::vector<std::vector<int>> jobs = {{0, 1, 2, 3, 4}, {0, 1, 2, 3}, {3, 1, 0}, {1, 4, 3, 0, 2}};
  const int me = std::atoi(std::getenv("DABKE_RANK"));
  for (const char* const vendor : {"DABKE_", "HOROVOD_"}) {
    for (const char* const name : {"LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"})
      unsetenv((std::string(vendor) + name).c_str());
  }
  for (int round = 0; round < 10; ++round) {
    for (const std::vector<int>& job : jobs) {
      const auto place = std::ranges::find(job, me);
      if (place == job.end()) continue;
      const auto rank = static_cast<int>(place - job.begin());
      const auto size = static_cast<int>(job.size());
      setenv("DABKE_RANK", std::to_string(rank).c_str(), 1);
      setenv("DABKE_SIZE", std::to_string(size).c_str(), 1);
      const dabke::Session session;
      std::vector<int> sum{me};
      dabke::allreduce("sum", sum, {.op = DABKE_SUM});
      if (dabke::rank() != rank || dabke::size() != size ||
          sum[0] != std::accumulate(job.begin(), job.end(), 0)) {
        say("wrong numbers");
        return 1;
      }
    }
  }
  say("numbers are right");
  return 0;
}

int run(const std::string& what) {
  if (what == "registered") return registered();
  if (what == "renumbers") return renumbers();
  if (what == "leaves-before-init" && std::string(std::getenv("DABKE_RANK")) == "1") return 0;
  const dabke::Session session;
  if (what.starts_with("leaves-")) return leaves_early(what);
  if (what == "names") return many_names();
  if (what == "idle") return idle();
  if (what == "sums") return sums();
  if (what == "large") return large(HUGE_ELEMENTS / 4);
  if (what == "moving") return large(HUGE_ELEMENTS / 16);
  if (what == "loop") return loop();
  if (what == "huge") return huge<std::vector<float>>();
  if (what == "huge-registered") return huge<Registered<float>>();
  if (what == "steps") return steps();
  if (what == "marked-steps") return marked_steps();
  if (what.starts_with("slow-rank")) return slow_rank(what);
  if (what == "later-small") return later(std::size_t{4} << 10);
  if (what == "later-large") return later(std::size_t{16} << 20);
  if (what == "mismatch") return mismatch();
  if (what.starts_with("stopped-wait")) return stopped_wait(what == "stopped-wait-inside");
  if (what.starts_with("late")) return late(what);
  return victim(what);
}

}  // namespace

/// Puts every DABKE_TEST_RANKS_PER_HOST ranks on a host of their own, if that variable is set.
void pretend_hosts() {
  const char* const each = std::getenv("DABKE_TEST_RANKS_PER_HOST");
  const char* const rank = std::getenv("DABKE_RANK");
  if (each == nullptr || rank == nullptr) return;
  setenv("DABKE_HOSTNAME", ("host-" + std::to_string(std::atoi(rank) / std::atoi(each))).c_str(), 1);
}

int main(int argc, char** argv) {
  pretend_hosts();
  try {
    return run(argc > 1 ? argv[1] : "sums");
  } catch (const dabke::Error& error) {
    return failed(error);
  }
}

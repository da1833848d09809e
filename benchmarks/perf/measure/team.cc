#include "benchmarks/perf/measure/team.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <numeric>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "runtime/links/shm/waiting.h"

namespace dabke::perf {
namespace {

constexpr char kKey[] = "perf/team";
constexpr double kSecondsToMeet = 30;

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}
void wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct Team::Page {
  static constexpr std::size_t kMostRanks = 1024;
  alignas(64) std::atomic<std::uint32_t> arrived;
  alignas(64) std::atomic<std::uint32_t> generation;
  alignas(64) std::atomic<std::uint32_t> ball;
  double said[kMostRanks];
};

Result<std::unique_ptr<Team>> Team::open(const World& world, store::Store& store) {
  if (world.size > static_cast<int>(Page::kMostRanks)) {
    return Status(Code::invalid_argument,
                  fmt::format("{} ranks are too many; at most {}", world.size, Page::kMostRanks));
  }
  std::unique_ptr<Team> team(new Team(world.rank, world.size));
  if (world.rank == 0) {
    DABKE_ASSIGN_OR_RETURN(team->segment_,
                           shm::Segment::create("dabke-perf", sizeof(Page), team->fork_guard_));
    DABKE_RETURN_IF_ERROR(store.set(kKey, fmt::format("{} {}", ::getpid(), team->segment_.descriptor())));
  } else {
    DABKE_ASSIGN_OR_RETURN(const std::string where, store.get(kKey, deadline_after(kSecondsToMeet)));
    int pid = 0, descriptor = 0;
    std::istringstream(where) >> pid >> descriptor;
    Fd fd(::open(fmt::format("/proc/{}/fd/{}", pid, descriptor).c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) {
      return Status(
          Code::unsupported,
          fmt::format("rank {} cannot open the memory of rank 0 (process {}): {}; dabke-perf measures "
                      "between ranks of one host that see each other's processes",
                      world.rank, pid, std::strerror(errno)));
    }
    DABKE_ASSIGN_OR_RETURN(team->segment_,
                           shm::Segment::adopt(std::move(fd), sizeof(Page), team->fork_guard_));
  }
  // The atomics start as zeroed memory.
  team->page_ = reinterpret_cast<Page*>(team->segment_.bytes().data());
  team->barrier();
  team->segment_.close_descriptor();
  return team;
}

void Team::barrier() {
  const std::uint32_t generation = page_->generation.load();
  if (page_->arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
    page_->arrived.store(0);
    page_->generation.fetch_add(1);
    wake_all(page_->generation);
    return;
  }
  for (shm::Waiting wait; wait.again();)
    if (page_->generation.load() != generation) return;
  while (page_->generation.load() == generation) sleep_while(page_->generation, generation);
}

std::vector<double> Team::gather(double mine) {
  page_->said[rank_] = mine;
  barrier();
  std::vector<double> all(page_->said, page_->said + size_);
  barrier();
  return all;
}

double Team::max(double mine) { return std::ranges::max(gather(mine)); }
double Team::min(double mine) { return std::ranges::min(gather(mine)); }
double Team::sum(double mine) {
  const auto all = gather(mine);
  return std::accumulate(all.begin(), all.end(), 0.0);
}

double Team::line_ns() {
  constexpr std::uint32_t kOver = ~std::uint32_t{0};
  constexpr int kTries = 20;
  constexpr std::uint32_t kTrips = 100;
  constexpr auto kLimit = std::chrono::milliseconds(5);
  if (rank_ == 0) page_->ball.store(0);
  barrier();
  double best = 0;
  if (rank_ == 0 && size_ > 1) {
    const TimePoint limit = Clock::now() + kLimit;
    const auto comes_back = [&](std::uint32_t ball) {
      for (int looks = 1; page_->ball.load(std::memory_order_acquire) != ball; ++looks) {
        if (looks % 1024 == 0 && Clock::now() > limit) return false;
      }
      return true;
    };
    bool is_back = true;
    for (int i = 0; i < kTries && is_back; ++i) {
      const TimePoint begin = Clock::now();
      for (std::uint32_t trip = 0; trip < kTrips && is_back; ++trip) {
        page_->ball.store(2 * trip + 1, std::memory_order_release);
        is_back = comes_back(2 * trip + 2);
      }
      const double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / (2 * kTrips);
      if (is_back && (best == 0 || ns < best)) best = ns;
    }
    page_->ball.store(kOver);
  } else if (rank_ == 1) {
    for (std::uint32_t seen = 0; seen != kOver; seen = page_->ball.load(std::memory_order_acquire)) {
      // does not overwrite the last value
      if (seen % 2 == 1) page_->ball.compare_exchange_strong(seen, seen + 1);
    }
  }
  return max(best);
}

int Team::cores() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ::sched_getaffinity(0, sizeof mine, &mine);
  // The ranks usually have one core each, or each has all cores.
  int first = 0;
  while (first < CPU_SETSIZE && !CPU_ISSET(first, &mine)) ++first;
  const std::vector<double> firsts = gather(first);
  const double most = max(CPU_COUNT(&mine));
  return most > 1 ? static_cast<int>(most) : static_cast<int>(std::set(firsts.begin(), firsts.end()).size());
}

}  // namespace dabke::perf

#include "tests/gpu/loss.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "tests/conformance/cases.h"
#include "tests/gpu/cuda_rank.h"
#include "tests/gpu/judge.h"

namespace dabke::testing {
namespace {

constexpr std::size_t kGradients = 256;
constexpr std::int64_t kElements =
    4 << 20;  // of float32: 4 GiB in all, which takes far longer than until the kill
constexpr std::size_t kBytes = kElements * sizeof(float);
constexpr std::size_t kCases = 100;
constexpr double kKillAfterSeconds = 0.1;
constexpr Duration kLostWithin = std::chrono::seconds(30);

struct Ended {
  double seconds = 0;  // since the ranks met
  std::size_t right = 0;
  std::string said;  // by the first that failed
};

/// Of tensors that lie in one piece of memory: what is reduced makes no difference here.
Ended reduce_until_loss(Rank& self) {
  const Device device = device_of(self.runtime().world());
  const auto stream = must(cuda_process().open(device));
  const DeviceBuffer memory = allocate_from(stream->memory(), kBytes);
  if (memory == nullptr) throw std::runtime_error(fmt::format("the device has no {} bytes", kBytes));
  must(stream->clear(memory.get(), kBytes));
  await_end(*stream);
  const auto submit = [&](std::size_t number) {
    const TensorView tensor{memory.get(), DType::f32, device, Shape{kElements}};
    return self.start(CollectiveKind::allreduce, {{tensor}}, {.name = fmt::format("gradient {}", number)});
  };
  must(submit(0).wait());  // communicators are there, and memory of the device
  must(self.barrier());
  const TimePoint begun = Clock::now();
  if (self.rank() == self.size() - 1) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::duration<double>(kKillAfterSeconds));
      (void)std::raise(SIGKILL);
    }).detach();
  }
  Ended ended;
  while (ended.said.empty() && Clock::now() < begun + kLostWithin) {
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < kGradients; ++i) pending.push_back(submit(i));
    for (const Pending& one : pending) {
      const Status status = one.wait();
      if (status.is_ok()) {
        ++ended.right;
      } else if (ended.said.empty()) {
        ended.said = status.message();
      }
    }
  }
  ended.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  return ended;
}

/// Nothing of the environment says any more that this process is one of several.
void leave_job() {
  ::unsetenv("DABKE_RENDEZVOUS");
  for (const char* const vendor : {"DABKE", "HOROVOD"}) {
    for (const char* const name : {"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"})
      ::unsetenv(fmt::format("{}_{}", vendor, name).c_str());
  }
}

}  // namespace

int lose_a_rank() {
  int rank = 0;
  {
    Rank self = open_rank(false);
    rank = self.rank();
    if (self.size() < 2) throw std::runtime_error("a rank is lost among two or more: dabkerun -np 2");
    const Ended ended = reduce_until_loss(self);
    const std::string lost = fmt::format("rank {}", self.size() - 1);
    if (ended.said.find(lost) == std::string::npos)
      throw std::runtime_error(fmt::format("{} was killed, and what failed says: {}", lost, ended.said));
    if (rank == 0) {
      std::printf(
          "figure: a rank of %d is killed amid allreduces of %zu MiB, %zu at a time | %.0f ms after it every "
          "handle had ended, after %zu that were right: %s\n",
          self.size(), kBytes >> 20, kGradients, (ended.seconds - kKillAfterSeconds) * 1e3, ended.right,
          ended.said.c_str());
    }
    self.close();
  }
  leave_job();
  Rank alone = open_rank(true);
  std::vector<Case> cases = cases_for(alone.size(), false);
  cases.resize(std::min(cases.size(), kCases));
  const std::vector<std::string> wrong = run_cases(alone, cases, 1, kCases);
  alone.close();
  return rank == 0 || !wrong.empty() ? judge("cases", cases.size(), wrong) : 0;
}

}  // namespace dabke::testing

#include "tests/gpu/loss.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>

#include "tests/conformance/cases.h"
#include "tests/gpu/cuda_rank.h"
#include "tests/gpu/judge.h"

namespace dabke::test {
namespace {

constexpr std::size_t kGradients = 256;
// float32 elements: 4 GiB in all tensors, most of which are in flight at the kill
constexpr std::int64_t kElements = 4 << 20;
constexpr std::size_t kBytes = kElements * sizeof(float);
constexpr std::size_t kCases = 100;

struct Ended {
  double seconds = 0;  // since the first tensor was right, which the last rank does not survive
  std::size_t right = 0;
  std::string said;  // the message of the first tensor that failed
};

/// Reduces tensors that all lie in one piece of memory: the values make no difference here.
Ended reduce_until_loss(Rank& self) {
  const Device device = device_of(self.runtime().world());
  const auto stream = must(cuda_process().open(device));
  const DeviceBuffer memory = allocate_from(stream->memory(), kBytes);
  if (memory == nullptr) throw std::runtime_error(fmt::format("the device has no {} bytes", kBytes));
  must(stream->clear(memory.get(), kBytes));
  await_end(*stream);
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < kGradients; ++i) {
    const TensorView tensor{memory.get(), DType::f32, device, Shape{kElements}};
    pending.push_back(
        self.start(CollectiveKind::allreduce, {{tensor}}, {.name = fmt::format("gradient {}", i)}));
  }
  (void)pending.front().wait();
  if (self.rank() == self.size() - 1) (void)std::raise(SIGKILL);
  const TimePoint begun = Clock::now();
  Ended ended;
  for (const Pending& one : pending) {
    const Status status = one.wait();
    if (status.is_ok()) {
      ++ended.right;
    } else if (ended.said.empty()) {
      ended.said = status.message();
    }
  }
  ended.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  return ended;
}

/// The process's environment without the variables that make it one of several ranks.
Environment environment_alone() {
  return [all = process_environment()](const std::string& name) {
    const bool is_of_job = name == "DABKE_RENDEZVOUS" || name.ends_with("RANK") || name.ends_with("SIZE");
    return is_of_job ? std::nullopt : all(name);
  };
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
      const std::string what =
          fmt::format("a rank of {} is killed as the first of {} allreduces of {} MiB is done", self.size(),
                      kGradients, kBytes >> 20);
      std::printf("figure: %s | %.0f ms later every handle had ended, %zu of them right: %s\n", what.c_str(),
                  ended.seconds * 1e3, ended.right, ended.said.c_str());
    }
    self.close();
  }
  Rank alone = open_rank(true, environment_alone());
  std::vector<Case> cases = cases_for(alone.size(), false);
  cases.resize(std::min(cases.size(), kCases));
  const std::vector<std::string> wrong = run_cases(alone, cases, 1, kCases);
  alone.close();
  return rank == 0 || !wrong.empty() ? judge("cases", cases.size(), wrong) : 0;
}

}  // namespace dabke::test

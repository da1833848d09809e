// One rank of the jobs of tests/gpu/run.sh, with its tensors in the memory of a CUDA device. The device is
// the one with its local rank, modulo the number of devices.
//
//   gpu_worker device               prints the driver, NCCL and the devices; fails if they cannot be used
//   gpu_worker kernels              compares the kernels with the host's, to the bit
//   gpu_worker clock                compares the device's times with the host's
//   gpu_worker conformance [CASES]  the conformance matrix among the ranks of the job, or some of its cases
//   gpu_worker loss                 kills the last rank amid collectives; the other ranks go on alone
//   gpu_worker measure [BYTES]      prints figures
//   gpu_worker arithmetic           prints NCCL's results for NaN, for zeros, and for sums of 16-bit floats
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

#include "tests/conformance/averages.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/factors.h"
#include "tests/gpu/arithmetic.h"
#include "tests/gpu/clock.h"
#include "tests/gpu/cuda_rank.h"
#include "tests/gpu/judge.h"
#include "tests/gpu/loss.h"
#include "tests/gpu/measure.h"
#include "tests/ops/nccl/kernel_checks.h"

namespace dabke::test {
namespace {

constexpr unsigned kSeed = 1;  // the same in every process
// The number of cases in one batch of the suite: small, so that a fault is easily found, but large enough for
// fusion.
constexpr std::size_t kTogether = 128;

int show_device() {
  ops::NcclProcess& process = cuda_process();
  const cuda::Driver& driver = cuda_driver();
  std::printf("%s\nNCCL version %d\n", process.description().c_str(), process.version());
  for (int index = 0; index < device_count(); ++index) {
    char name[256] = "";
    cuda::DeviceHandle handle = 0;
    must(cuda::check(driver, "cuDeviceGet", driver.device(&handle, index)));
    must(cuda::check(driver, "cuDeviceGetName", driver.device_name(name, sizeof name, handle)));
    std::printf("device %d: %s\n", index, name);
  }
  must(process.open(Device{DeviceType::cuda, 0}));
  return 0;
}

int check_kernels() {
  const auto stream = must(cuda_process().open(Device{DeviceType::cuda, 0}));
  std::vector<std::string> wrong;
  const auto checks = {wrong_copies, wrong_pieces, wrong_odd_addresses, wrong_neutral_elements,
                       wrong_transfers};
  for (const auto check : checks) {
    for (std::string& text : check(*stream)) wrong.push_back(std::move(text));
  }
  return judge("groups of kernels", checks.size(), wrong);
}

/// Sums over process sets that have ranks in common.
void run_process_sets(Rank& self, std::vector<std::string>& wrong) {
  const int last = self.size() - 1;
  const std::vector<int> sets[] = {{1, last}, {0, last}};
  for (const auto& ranks : sets) {
    const ProcessSetId set = self.add_process_set(ranks);
    if (std::ranges::find(ranks, self.rank()) != ranks.end()) {
      std::vector<std::int64_t> x{1, 2, 3};
      must(self.allreduce(x, {.name = "x", .set = set}));
      if (x != std::vector<std::int64_t>{2, 4, 6}) wrong.push_back("a sum over a process set of two");
    }
    must(self.remove_process_set(set));
  }
}

int check_conformance(std::size_t most) {
  // Runs twice in one process: the devices stay, the job and its communicators are new.
  for (int init = 0; init < 2; ++init) {
    Rank self = open_rank(true);
    std::vector<Case> cases = cases_for(self.size(), false);
    std::ranges::shuffle(cases, std::mt19937(kSeed));
    cases.resize(std::min(cases.size(), init == 0 ? most : std::min<std::size_t>(most, 100)));
    std::vector<std::string> wrong = run_cases(self, cases, kSeed, kTogether);
    if (init == 0 && cases.size() < most) {
      for (std::string& text : wrong_averages(self, false)) wrong.push_back(std::move(text));
      for (std::string& text : wrong_factors(self)) wrong.push_back(std::move(text));
      if (self.size() > 2) run_process_sets(self, wrong);
    }
    must(self.barrier());
    self.close();
    if (self.rank() != 0 && wrong.empty()) continue;
    if (const int code = judge("cases", cases.size(), wrong); code != 0) return code;
  }
  return 0;
}

int run(std::string_view what, const char* number) {
  if (what == "device") return show_device();
  if (what == "kernels") return check_kernels();
  if (what == "clock") return compare_clocks();
  if (what == "conformance") return check_conformance(number ? std::strtoul(number, nullptr, 10) : SIZE_MAX);
  if (what == "loss") return lose_a_rank();
  if (what == "measure") return measure(number ? std::strtoul(number, nullptr, 10) : std::size_t{256} << 20);
  if (what == "arithmetic") return show_arithmetic();
  std::fprintf(
      stderr, "usage: gpu_worker device|kernels|clock|conformance [CASES]|loss|measure [BYTES]|arithmetic\n");
  return 2;
}

}  // namespace
}  // namespace dabke::test

int main(int argc, char** argv) {
  try {
    return dabke::test::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

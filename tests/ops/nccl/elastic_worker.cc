// A rank of an elastic job on the doubles, on the device of its local rank. Each step sums a tensor of the
// device and one of the host over the ranks. Prints "epoch 2 of 3" at the beginning of an epoch, and "done".
// The argument is a file: once rank 0 sees it, all ranks end after the same step.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dabke/dabke.hpp>

#include "tests/facts.h"
#include "tests/fake_cuda/program.h"

namespace {

constexpr std::int64_t kElements = 1000;

[[noreturn]] void fail(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::exit(1);
}

/// Steps until there is the file, or the hosts change. True if there is the file.
bool train(float* on_device, std::uint64_t& step, const char* stop_file) {
  const int device = dabke::local_rank();  // kept from epoch to epoch
  for (; dabke::announced_changes() == 0; ++step) {
    std::fill_n(on_device, kElements, static_cast<float>(step % 7));
    const bool stops = dabke::rank() == 0 && ::access(stop_file, F_OK) == 0;
    float on_host[2] = {1, stops ? 1.0f : 0.0f};
    const auto far = dabke::allreduce_async(
        "far", dabke::Tensor(on_device, {kElements}).on({kDLCUDA, device}), {.op = DABKE_SUM});
    dabke::allreduce("near", dabke::Tensor(on_host, {2}), {.op = DABKE_SUM});
    far.wait();
    const auto want = static_cast<float>(step % 7 * static_cast<std::uint64_t>(dabke::size()));
    if (std::any_of(on_device, on_device + kElements, [&](float x) { return x != want; }))
      fail("a wrong sum on the device");
    if (on_host[0] != static_cast<float>(dabke::size())) fail("a wrong sum on the host");
    if (on_host[1] > 0) return true;
    ::usleep(1000);
  }
  return false;
}

}  // namespace

int main(int, char** argv) {
  for (const char* const file : {FAKE_CUDA, FAKE_NCCL}) {
    if (::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr) fail(::dlerror());
  }
  std::uint64_t step = 0;
  const dabke::Session session;
  auto* const on_device = static_cast<float*>(fake_cuda::function<void*(int, std::size_t)>(
      "fake_cuda_allocate")(dabke::local_rank(), kElements * sizeof(float)));
  while (true) {
    std::printf("epoch %d of %d\n", static_cast<int>(dabke::current_epoch().number), dabke::size());
    std::fflush(stdout);
    try {
      // The newest commit is the state: all begin with its step.
      const dabke::Epoch epoch = dabke::current_epoch();
      step = epoch.newest_commit.value_or(0);
      if (train(on_device, step, argv[1])) break;
    } catch (const dabke::Error& error) {
      std::printf("%s\n", dabke_status_name(error.status()));
    }
    if (dabke::next_epoch(step).left) return 0;
  }
  std::printf("done\n");
}

// A rank of a job on the doubles, on the device of its rank. It sums several tensors at once, in separate
// batches, and prints "right" or the errors.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <dabke/dabke.hpp>

#include "tests/facts.h"
#include "tests/fake_cuda/program.h"

namespace {

constexpr std::int64_t kElements = 1000;
constexpr int kTensors = 4;

int fail(const std::string& text) {
  std::printf("%s\n", text.c_str());
  return 1;
}

}  // namespace

int main() {
  for (const char* const file : {FAKE_CUDA, FAKE_NCCL}) {
    if (::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr) return fail(::dlerror());
  }
  if (dabke_init(nullptr) != DABKE_OK) return fail(dabke_last_error());
  std::vector<float*> data;
  std::vector<dabke_handle*> handles;
  for (int i = 0; i < kTensors; ++i) {
    data.push_back(static_cast<float*>(fake_cuda::function<void*(int, std::size_t)>("fake_cuda_allocate")(
        dabke_rank(), kElements * sizeof(float))));
    std::fill_n(data.back(), kElements, static_cast<float>(i + 1));
    std::int64_t shape = kElements;
    DLTensor tensor{};
    tensor.data = data.back();
    tensor.device = {kDLCUDA, dabke_rank()};
    tensor.ndim = 1;
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = &shape;
    dabke_options options = DABKE_OPTIONS_INIT;
    options.op = DABKE_SUM;
    dabke_handle* handle = nullptr;
    if (dabke_allreduce_async(("x" + std::to_string(i)).c_str(), &tensor, nullptr, &options, &handle) !=
        DABKE_OK)
      return fail(dabke_last_error());
    handles.push_back(handle);
  }
  std::string said;
  for (int i = 0; i < kTensors; ++i) {
    if (dabke_wait(handles[static_cast<std::size_t>(i)], -1) != DABKE_OK)
      said += std::string(dabke_last_error()) + "\n";
    const float want = static_cast<float>((i + 1) * dabke_size());
    const float* const got = data[static_cast<std::size_t>(i)];
    if (said.empty() && std::any_of(got, got + kElements, [&](float x) { return x != want; }))
      said = "a wrong sum\n";
  }
  std::printf("%s", said.empty() ? "right\n" : said.c_str());
  (void)dabke_shutdown();
  return 0;
}

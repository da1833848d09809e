#include "device.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "report.h"
#include "tests/facts.h"

namespace storm {

void load_doubles() {
  for (const char* const file : {FAKE_CUDA, FAKE_NCCL}) {
    if (::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr)
      wrong(std::string("has no double of the CUDA driver and NCCL: ") + ::dlerror());
  }
}

std::byte* allocate_on_device(int device, std::size_t bytes) {
  static const auto allocate = fake_cuda::function<void*(int, std::size_t)>("fake_cuda_allocate");
  void* const memory = allocate(device, bytes);
  if (memory == nullptr) wrong("no memory on device " + std::to_string(device));
  return static_cast<std::byte*>(memory);
}

void free_on_device(std::byte* memory) {
  static const auto release = fake_cuda::function<int(unsigned long long)>("fake_cuda_free");
  release(reinterpret_cast<std::uintptr_t>(memory));
}

fake_cuda::Stream stream_of(int device, int choice) {
  constexpr int kNumbers = 2;  // 1 is the legacy stream, 2 that of the thread
  constexpr int kOwn = 2;
  if (choice % (kNumbers + kOwn) < kNumbers)
    return fake_cuda::Stream::numbered(static_cast<std::uintptr_t>(choice % (kNumbers + kOwn) + 1), device);
  static const fake_cuda::Stream own[kOwn] = {fake_cuda::Stream(device), fake_cuda::Stream(device)};
  return own[choice % kOwn];
}

}  // namespace storm

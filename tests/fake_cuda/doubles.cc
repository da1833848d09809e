#include "tests/fake_cuda/doubles.h"

#include <dlfcn.h>

#include <stdexcept>

#include "tests/facts.h"

namespace dabke::test {

namespace {

template <class Function>
Function function(const char* name, const char* file = FAKE_CUDA) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

Status load_doubles() {
  // Loaded once, by one thread: ThreadSanitizer does not see the lock of the
  // loader, which finds NCCL by its name.
  static const Status loaded = []() -> Status {
    for (const char* const file : {FAKE_CUDA, FAKE_NCCL}) {
      if (::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr)
        return {Code::not_built, ::dlerror()};
    }
    return {};
  }();
  return loaded;
}

void plan_faults(const std::string& plan, unsigned seed) {
  function<decltype(&fake_cuda_plan)>("fake_cuda_plan")(plan.c_str(), seed);
}

std::uint64_t kernels_run(int device) {
  return function<decltype(&fake_cuda_kernels_run)>("fake_cuda_kernels_run")(device);
}

NcclFigures nccl_figures() {
  return function<decltype(&fake_nccl_figures)>("fake_nccl_figures", FAKE_NCCL)();
}

void* allocate_on_double(int device, std::size_t bytes) {
  return function<decltype(&fake_cuda_allocate)>("fake_cuda_allocate")(device, bytes);
}

}  // namespace dabke::test

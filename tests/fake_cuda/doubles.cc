#include "tests/fake_cuda/doubles.h"

#include <dlfcn.h>

#include <stdexcept>

#include "tests/facts.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace dabke::testing {

Status load_doubles() {
  for (const char* const file : {FAKE_CUDA, FAKE_NCCL}) {
    if (::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr)
      return {Code::not_built, ::dlerror()};
  }
  return {};
}

void plan_faults(const std::string& plan, unsigned seed) {
  void* const library = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  reinterpret_cast<decltype(&fake_cuda_plan)>(::dlsym(library, "fake_cuda_plan"))(plan.c_str(), seed);
}

}  // namespace dabke::testing

// Ranges for a profiler. Meson runs the first test in a process with a profiler (NVTX_INJECTION64_PATH).
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/in_process/job.h"
#include "tests/ops/nccl/session.h"

namespace dabke::test {
namespace {

void run_one() {
  run_on_ranks(setup_named("nccl"), 2, [](Rank& self) {
    std::vector<float> x(5, 1);
    must(self.allreduce(x, {.name = "gradient"}));
  });
}

std::size_t count(const std::string& text, const std::string& line) {
  std::size_t times = 0;
  for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) ++times;
  return times;
}

}  // namespace

TEST_CASE("a profiler is told of each submit and of each run of a device's lane, in a domain of our own",
          "[.nvtx]") {
  run_one();
  void* const library = ::dlopen(NVTX_INJECTION, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  const auto nvtx_seen = reinterpret_cast<const char* (*)()>(::dlsym(library, "nvtx_seen"));
  const std::string seen = nvtx_seen();
  CAPTURE(seen);
  CHECK(count(seen, "begin dabke submit allreduce 'gradient'\n") == 2);
  CHECK(count(seen, "begin dabke allreduce 'gradient'\n") == 2);
  CHECK(count(seen, "begin ") == 4);
  CHECK(count(seen, "end dabke \n") == 4);
}

TEST_CASE("where no profiler is attached a device has none") {
  CHECK(must(session().open(Device{DeviceType::cuda, 0}))->profiler() == nullptr);
}

}  // namespace dabke::test

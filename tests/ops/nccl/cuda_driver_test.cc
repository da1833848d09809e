#include "ops/nccl/cuda_driver.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <catch2/catch.hpp>

#include "ops/registry.h"
#include "runtime/modules/module_loader.h"
#include "tests/child_process.h"
#include "tests/facts.h"
#include "tests/skip.h"

namespace dabke::test {
using namespace cuda;
namespace {

using Catch::Contains;
using test::text_in_child;

/// The result of loading a driver, under a plan of the fake driver.
std::string loaded(const std::string& file, const std::string& plan = "") {
  return text_in_child([&] {
    ::setenv("FAKE_CUDA_PLAN", plan.c_str(), 1);
    const auto driver = load_driver(file);
    return driver ? driver->text
                  : std::string(name_of(driver.status().code())) + ": " + driver.status().message();
  });
}

/// The result of opening a fake device, with this NCCL and this DABKE_GPU_OPERATIONS.
std::string opened(const std::string& gpu_operations, const std::string& nccl, const std::string& set = "") {
  return text_in_child([&]() -> std::string {
    if (::dlopen(FAKE_CUDA, RTLD_NOW) == nullptr) return ::dlerror();
    Config config;
    config.module_path = MODULE_PATH;
    config.nccl_library = nccl;
    config.gpu_operations = gpu_operations;
    const OpenDevice open = ops::device_opener(config, [&](const std::string& name) {
      return name == set ? std::optional<std::string>("1") : std::nullopt;
    });
    const Status status = open(Device{DeviceType::cuda, 0}).status();
    return status.is_ok() ? "opened" : status.message();
  });
}

}  // namespace

TEST_CASE("a machine without a driver says so at once, whichever NCCL it has") {
  const bool has_driver =
      !text_in_child([] { return ::dlopen("libcuda.so.1", RTLD_NOW) != nullptr ? "yes" : ""; }).empty();
  if (has_driver) DABKE_SKIP("this machine has a driver");
  const std::string nccl = GENERATE(std::string(), std::string(REAL_NCCL));
  std::string said;
  Duration took = Duration::max();
  for (int attempt = 0; attempt < 10 && took >= std::chrono::seconds(1);
       ++attempt) {  // the machine may be busy
    const TimePoint before = Clock::now();
    said = text_in_child([&] {
      Config config;
      config.module_path = MODULE_PATH;
      config.nccl_library = nccl;
      const OpenDevice open =
          ops::device_opener(config, [](const std::string&) { return std::optional<std::string>(); });
      return open(Device{DeviceType::cuda, 0}).status().message();
    });
    took = Clock::now() - before;
  }
  CHECK(took < std::chrono::seconds(1));
  CHECK_THAT(said, Contains("there is no CUDA driver on this machine (libcuda.so.1: ") &&
                       Contains("copy the tensor to the host"));
}

TEST_CASE("a device is opened without NCCL where the host moves its tensors, and not where NCCL does") {
  for (const char* const by_host : {"host", "gloo", "mpi"})
    CHECK(opened(by_host, "/nowhere/libnccl.so.2") == "opened");
  for (const char* const by_nccl : {"nccl", "hierarchical"})
    CHECK_THAT(opened(by_nccl, "/nowhere/libnccl.so.2"),
               Contains("DABKE_NCCL_LIBRARY=/nowhere/libnccl.so.2"));
}

TEST_CASE("NCCL_COMM_BLOCKING=1 is refused, because nothing ends what NCCL waits for then") {
  CHECK(opened("nccl", FAKE_NCCL) == "opened");
  CHECK_THAT(opened("nccl", FAKE_NCCL, "NCCL_COMM_BLOCKING"),
             Catch::StartsWith("NCCL_COMM_BLOCKING=1 makes NCCL wait") && Contains("unset it"));
  CHECK(opened("host", "", "NCCL_COMM_BLOCKING") == "opened");
}

TEST_CASE("what a driver says when it cannot be used comes with its name and a remedy") {
  const auto [error, name, remedy] = GENERATE(table<int, const char*, const char*>({
      {kNoDevice, "CUDA_ERROR_NO_DEVICE (100)", "CUDA_VISIBLE_DEVICES"},
      {kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "reboot"},
      {kNoCompatibility, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", "compatibility package"},
      {kUnknown, "CUDA_ERROR_UNKNOWN (999)", "dmesg"},
  }));
  CHECK_THAT(loaded(FAKE_CUDA, "cuInit * 1 " + std::to_string(error)),
             Catch::StartsWith("unsupported: the CUDA driver cannot be used: cuInit: ") && Contains(name) &&
                 Contains(remedy));
}

TEST_CASE("a driver that works tells its version") { CHECK(loaded(FAKE_CUDA) == "CUDA driver 13.0"); }

TEST_CASE("a file that is no driver is refused by the function that it lacks") {
  CHECK_THAT(loaded("libm.so.6"), Catch::StartsWith("unsupported: ") && Contains("libm.so.6 has no cuInit"));
}

TEST_CASE(
    "an error of the driver has a remedy where one is known, and says what it can where it knows nothing") {
  const Driver unknown;
  CHECK_THAT(describe(unknown, kUnsupportedPtxVersion),
             Contains("(222)") && Contains("install a newer driver"));
  CHECK(describe(unknown, 12345) == "CUDA error (12345): unknown");
  CHECK(check(unknown, "cuMemAlloc", kOutOfMemory).code() == Code::out_of_memory);
}

}  // namespace dabke::test

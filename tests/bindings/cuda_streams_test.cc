// The C API with the program's own CUDA streams, in a job of one rank over the double: a result is twice what was written.
#include <array>
#include <string>

#include <dabke/dabke.h>
#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/fake_cuda/program.h"

using Catch::Contains;
using fake_cuda::Capture;
using fake_cuda::Gate;
using fake_cuda::Stream;

namespace {

constexpr int kDevice = 0;
constexpr std::int64_t kElements = 4;

struct Job {
  Job() {
    for (const char* const file : {FAKE_CUDA, FAKE_NCCL}) {
      if (::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr)
        throw std::runtime_error(::dlerror());
    }
    if (dabke_init(nullptr) != DABKE_OK) throw std::runtime_error(dabke_last_error());
  }
  ~Job() { (void)dabke_shutdown(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
};

struct Tensor {
  Tensor() {
    dl.data = data;
    dl.device = {kDLCUDA, kDevice};
    dl.ndim = 1;
    dl.dtype = {kDLFloat, 32, 1};
    dl.shape = &shape;
    write(0);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  void write(float value) { std::fill(data, data + kElements, value); }
  std::array<float, kElements> read() const { return {data[0], data[1], data[2], data[3]}; }

  // Never freed: the double would wait for the program's streams.
  float* data = static_cast<float*>(
      fake_cuda::function<void*(int, std::size_t)>("fake_cuda_allocate")(kDevice, kElements * sizeof(float)));
  std::int64_t shape = kElements;
  DLTensor dl{};
};

std::array<float, kElements> all(float value) { return {value, value, value, value}; }

dabke_options doubling() {
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  options.postscale_factor = 2;
  return options;
}

}  // namespace

TEST_CASE("a call takes what is on the caller's stream, or behind his event, and does not wait for it") {
  const Job job;
  Tensor tensor;
  const Stream stream(kDevice);
  Gate gate;
  gate.hold(stream);
  stream.enqueue([&] { tensor.write(3); });
  const auto event = stream.record();
  dabke_options options = doubling();
  if (GENERATE(false, true)) {
    options.ready_event = event.get();
  } else {
    options.stream = stream.handle();
  }
  dabke_handle* handle = nullptr;
  REQUIRE(dabke_allreduce_async("x", &tensor.dl, nullptr, &options, &handle) == DABKE_OK);
  CHECK(dabke_wait(handle, 0.02) == DABKE_IN_PROGRESS);
  gate.open();
  CHECK(dabke_wait(handle, -1) == DABKE_OK);
  CHECK(tensor.read() == all(6));
  dabke_handle_free(handle);
}

TEST_CASE("a blocking call waits for the stream as well") {
  const Job job;
  Tensor tensor;
  const Stream stream(kDevice);
  stream.enqueue([&] { tensor.write(3); });
  dabke_options options = doubling();
  options.stream = stream.handle();
  CHECK(dabke_allreduce("x", &tensor.dl, nullptr, &options) == DABKE_OK);
  CHECK(tensor.read() == all(6));
}

TEST_CASE("a stream that is being captured is refused at once, with no handle") {
  const Job job;
  Tensor tensor;
  const Stream stream(kDevice);
  const Capture capture(stream);
  dabke_options options = doubling();
  options.stream = stream.handle();
  dabke_handle* handle = nullptr;
  CHECK(dabke_allreduce_async("x", &tensor.dl, nullptr, &options, &handle) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(handle == nullptr);
  CHECK_THAT(dabke_last_error(), Contains("allreduce 'x': the stream is being captured into a CUDA graph"));
}

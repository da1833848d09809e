// The C and C++ API with the program's own CUDA streams, in a job of one rank on the fake CUDA driver.
// A result is twice the input.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include <catch2/catch.hpp>
#include <dabke/dabke.hpp>

#include "tests/facts.h"
#include "tests/fake_cuda/program.h"

using Catch::Contains;
using fake_cuda::Capture;
using fake_cuda::Gate;
using fake_cuda::Stream;

namespace {

constexpr int kDevice = 0;
constexpr std::int64_t kElements = 4;

void load_doubles() {
  for (const char* const file : {FAKE_CUDA, FAKE_NCCL}) {
    if (::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr)
      throw std::runtime_error(::dlerror());
  }
}

struct Job {
  Job() {
    load_doubles();
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

  // Never freed: the fake driver would wait for the program's streams.
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

/// A job with a stream of the program that is held up. `options` are those of a call behind that stream.
struct HeldUp {
  HeldUp() {
    gate.hold(producer);
    options.stream = producer.handle();
  }

  const Job job;
  Tensor tensor;
  const Stream producer{kDevice};
  Gate gate;
  dabke_options options = doubling();
};

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

TEST_CASE("a stream waits for an operation that is still under way, and the host does not") {
  HeldUp held;
  const auto number = GENERATE(0, 1, 2, 3);  // null, legacy, of the thread, and one of the program's
  const Stream reader = number == 3 ? Stream(kDevice) : Stream::numbered(number == 2 ? 2 : 1, kDevice);
  held.producer.enqueue([&] { held.tensor.write(3); });
  held.options.wait_follows = GENERATE(0, 1);  // wait_stream is such a wait, and drives the operation
  dabke_handle* handle = nullptr;
  REQUIRE(dabke_allreduce_async("x", &held.tensor.dl, nullptr, &held.options, &handle) == DABKE_OK);
  REQUIRE(dabke_wait_stream(handle, number == 0 ? nullptr : reader.handle()) == DABKE_OK);
  CHECK(dabke_poll(handle) == 0);
  std::array<float, kElements> seen{};
  reader.enqueue([&] { seen = held.tensor.read(); });
  held.gate.open();
  reader.synchronize();
  CHECK(seen == all(6));
  CHECK(dabke_wait(handle, -1) == DABKE_OK);
  CHECK(dabke_wait_stream(handle, reader.handle()) ==
        DABKE_OK);  // returns at once for an operation that has ended
  dabke_handle_free(handle);
}

TEST_CASE("where an output is, which the handle owns, is known once a stream waits for it") {
  HeldUp held;
  const Stream reader(kDevice);
  held.producer.enqueue([&] { held.tensor.write(3); });
  dabke_options options = DABKE_OPTIONS_INIT;
  options.stream = held.producer.handle();
  dabke_handle* handle = nullptr;
  REQUIRE(dabke_alltoall_async("x", &held.tensor.dl, &options, &handle) == DABKE_OK);
  REQUIRE(dabke_wait_stream(handle, reader.handle()) == DABKE_OK);
  const DLTensor* output = nullptr;
  REQUIRE(dabke_handle_output(handle, 0, &output) == DABKE_OK);
  CHECK(dabke_handle_status(handle) == DABKE_IN_PROGRESS);
  CHECK(output->shape[0] == kElements);
  CHECK(output->device.device_type == kDLCUDA);
  const std::int64_t* rows = nullptr;
  std::size_t ranks = 0;
  CHECK(dabke_handle_received_splits(handle, &rows, &ranks) == DABKE_OK);
  CHECK(ranks == 1);
  CHECK(rows[0] == kElements);
  float seen = 0;
  reader.enqueue([&] { seen = static_cast<const float*>(output->data)[kElements - 1]; });
  held.gate.open();
  reader.synchronize();
  CHECK(seen == 3);
  CHECK(dabke_wait(handle, -1) == DABKE_OK);
  dabke_handle_free(handle);
}

TEST_CASE("a stream that is being captured, or of another device, does not wait, and can wait later") {
  HeldUp held;
  const Stream reader(kDevice);
  dabke_handle* handle = nullptr;
  REQUIRE(dabke_allreduce_async("x", &held.tensor.dl, nullptr, &held.options, &handle) == DABKE_OK);
  {
    const Capture capture(reader);
    CHECK(dabke_wait_stream(handle, reader.handle()) == DABKE_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(dabke_last_error(),
               Contains("dabke_wait_stream: allreduce 'x': the stream is being captured"));
    CHECK(dabke_wait_stream(handle, nullptr) == DABKE_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(dabke_last_error(),
               Contains("the default one, and it waits for a stream of the program that is"));
  }
  CHECK(dabke_poll(handle) == 0);
  CHECK(dabke_wait_stream(handle, reader.handle()) == DABKE_OK);
  held.gate.open();
  reader.synchronize();
  CHECK(dabke_wait(handle, -1) == DABKE_OK);
  dabke_handle_free(handle);
}

TEST_CASE("what runs on the host is waited for there, until the stream has something to wait for") {
  const Job job;
  float x = 3;
  std::int64_t one = 1;
  DLTensor host{};
  host.data = &x;
  host.device = {kDLCPU, 0};
  host.ndim = 1;
  host.dtype = {kDLFloat, 32, 1};
  host.shape = &one;
  const dabke_options options = doubling();
  dabke_handle* handle = nullptr;
  REQUIRE(dabke_allreduce_async("x", &host, nullptr, &options, &handle) == DABKE_OK);
  const Stream reader(kDevice);
  CHECK(dabke_wait_stream(handle, reader.handle()) == DABKE_OK);
  CHECK(dabke_poll(handle) == 1);
  CHECK(x == 6);
  dabke_handle_free(handle);
  CHECK(dabke_wait_stream(nullptr, reader.handle()) == DABKE_ERROR_INVALID_ARGUMENT);
}

TEST_CASE(
    "the host's part of a stream's wait ends with the time limit, with the check, and with the operation") {
  const Job job;
  Tensor tensor;
  const Stream reader(kDevice);
  dabke_options options = doubling();
  options.group = "of two";
  options.group_size = 2;
  dabke_handle* handle = nullptr;
  // The group is incomplete, so nothing is passed to the device.
  REQUIRE(dabke_allreduce_async("x", &tensor.dl, nullptr, &options, &handle) == DABKE_OK);
  CHECK(dabke_wait_stream_checking(handle, reader.handle(), 0.02, nullptr, nullptr) == DABKE_IN_PROGRESS);
  const auto stop = [](void*) { return 1; };
  CHECK(dabke_wait_stream_checking(handle, reader.handle(), -1, stop, nullptr) == DABKE_ERROR_INTERRUPTED);
  CHECK_THAT(dabke_last_error(), Contains("the wait for allreduce 'x' was stopped by its check"));
  const auto wait_within = [](void* other) {
    return dabke_wait_stream(static_cast<dabke_handle*>(other), nullptr) == DABKE_ERROR_INVALID_ARGUMENT ? 1
                                                                                                         : 0;
  };
  CHECK(dabke_wait_stream_checking(handle, reader.handle(), -1, wait_within, handle) ==
        DABKE_ERROR_INTERRUPTED);
  REQUIRE(dabke_abort("the test has seen enough") == DABKE_OK);
  CHECK(dabke_wait_stream(handle, reader.handle()) == DABKE_ERROR_ABORTED);
  CHECK_THAT(dabke_last_error(), Contains("the test has seen enough"));
  dabke_handle_free(handle);
}

TEST_CASE("in C++ a step of a stream is a call and a wait of the stream") {
  load_doubles();
  const dabke::Session session;
  Tensor tensor;
  const Stream stream(kDevice);
  const auto on_device = dabke::Tensor(tensor.data, {kElements}).on({kDLCUDA, kDevice});
  const dabke::Options options{.op = DABKE_SUM, .postscale_factor = 2, .stream = stream.handle()};
  Gate gate;
  gate.hold(stream);
  stream.enqueue([&] { tensor.write(3); });
  const dabke::Handle handle = dabke::allreduce_async("x", on_device, options);
  CHECK(handle.wait_stream(stream.handle()));
  CHECK_FALSE(handle.poll());
  stream.enqueue([&] { tensor.write(tensor.data[0] + 1); });
  gate.open();
  stream.synchronize();
  CHECK(tensor.read() == all(7));
  CHECK(handle.wait());

  const auto event = stream.record();
  CHECK(dabke::allreduce_async("y", on_device, {.ready_event = event.get()}).wait());
  // A stream is refused for tensors on the host. Errors, and checks that stop a wait, become exceptions.
  std::vector<float> host(3);
  CHECK_THROWS_WITH(dabke::allreduce("z", host, options), Contains("tensors on the host"));
  dabke_options one_of_two = doubling();
  one_of_two.group = "of two";
  one_of_two.group_size = 2;
  dabke_handle* raw = nullptr;
  REQUIRE(dabke_allreduce_async("w", &tensor.dl, nullptr, &one_of_two, &raw) == DABKE_OK);
  const dabke::Handle half(raw);
  CHECK_FALSE(half.wait_stream(stream.handle(), 0.01));
  CHECK_THROWS_WITH(half.wait_stream_checking(stream.handle(), [] { return true; }),
                    Contains("stopped by its check"));
  CHECK_THROWS_WITH(
      half.wait_stream_checking(stream.handle(), []() -> bool { throw std::runtime_error("thrown"); }),
      Contains("thrown"));
  dabke_abort("the test has seen enough");
  CHECK_THROWS_WITH(half.wait_stream(stream.handle()), Contains("the test has seen enough"));
}

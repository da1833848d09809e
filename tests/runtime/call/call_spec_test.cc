#include "runtime/call/call_spec.h"

#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "runtime/call/request.h"

namespace dabke::test {
namespace {

TEST_CASE("the list has a row for each field of a call") {
  // With one more field, this does not compile. Then add a row for the field, and a change in the next test.
  [[maybe_unused]] const auto& [kind, device_type, dtype, op, prescale, postscale, root, compression,
                                device_route] = CallSpec();
  constexpr std::size_t kFields = 9;
  STATIC_REQUIRE(std::tuple_size_v<decltype(kCallFields)> == kFields);
}

struct Change {
  CollectiveKind kind;
  void (*make)(CallSpec&);
  std::string name;
};

TEST_CASE("two calls differ in what counts for their collective, by name, and in nothing else") {
  constexpr auto kAllreduce = CollectiveKind::allreduce, kBroadcast = CollectiveKind::broadcast,
                 kAllgather = CollectiveKind::allgather, kBarrier = CollectiveKind::barrier;
  const auto change = GENERATE_REF(values<Change>({
      {kAllreduce, [](CallSpec& call) { call.kind = kAllgather; }, "operation"},
      {kAllreduce, [](CallSpec& call) { call.device_type = DeviceType::cuda; }, "device"},
      {kAllreduce, [](CallSpec& call) { call.device_route = DeviceRoute::host; }, "DABKE_GPU_OPERATIONS"},
      {kAllreduce, [](CallSpec& call) { call.op = ReduceOp::max; }, "reduce operation"},
      {kAllreduce, [](CallSpec& call) { call.prescale = 2; }, "scale factor"},
      {kAllreduce, [](CallSpec& call) { call.postscale = 2; }, "scale factor"},
      {kAllreduce, [](CallSpec& call) { call.compression = Compression::float16; }, "compression"},
      {kAllreduce, [](CallSpec& call) { call.root = 1; }, ""},
      {kBroadcast, [](CallSpec& call) { call.root = 1; }, "root rank"},
      {kBroadcast, [](CallSpec& call) { call.op = ReduceOp::max; }, ""},
      {kAllgather, [](CallSpec& call) { call.prescale = 2; }, ""},
      {kBarrier, [](CallSpec& call) { call.compression = Compression::float16; }, ""},
      {kBarrier, [](CallSpec& call) { call.device_type = DeviceType::cuda; }, ""},
  }));
  CallSpec one, other;
  one.kind = other.kind = change.kind;
  change.make(other);
  CHECK(difference(one, other) == change.name);
  CHECK((one == other) == change.name.empty());
}

TEST_CASE("the dtype tells calls apart, but each tensor of a request has its own") {
  CallSpec doubles;
  doubles.dtype = DType::f64;
  CHECK_FALSE(doubles == CallSpec());
  CHECK(difference(doubles, CallSpec()).empty());
  Request request;
  request.tensors.push_back({"x", DType::i8, Shape{2}});
  CHECK(request.call_of(request.tensors[0]).dtype == DType::i8);
}

TEST_CASE("a scale that is not a number agrees with itself") {
  CallSpec one;
  one.prescale = std::numeric_limits<double>::quiet_NaN();
  CHECK(one == CallSpec(one));
  CHECK_FALSE(one == CallSpec());
}

TEST_CASE("a scale of 0.0 differs from one of -0.0: the zeros that come of them have other signs") {
  for (double CallSpec::*const factor : {&CallSpec::prescale, &CallSpec::postscale}) {
    CallSpec zero, negative;
    zero.*factor = 0.0;
    negative.*factor = -0.0;
    CHECK(zero == zero);
    CHECK(negative == negative);
    CHECK_FALSE(zero == negative);
    CHECK(difference(zero, negative) == "scale factor");
  }
}

TEST_CASE("a description shows what counts, and of the rest what is not the default") {
  Request request;
  request.tensors.push_back({"x", DType::f32, Shape{2, 3}});
  request.root = 1;
  CHECK(request.describe() == "allreduce (sum) of float32 [2, 3]");
  request.prescale = 0.5;
  request.device_type = DeviceType::cuda;
  request.compression = Compression::bfloat16;
  CHECK(request.describe() ==
        "allreduce (sum) of float32 [2, 3] on cuda, prescale 0.5, compression bfloat16");
  request.kind = CollectiveKind::broadcast;
  request.compression = Compression::none;
  request.device_route = DeviceRoute::hierarchical;
  CHECK(request.describe() == "broadcast from rank 1 of float32 [2, 3] on cuda, device route hierarchical");
}

}  // namespace
}  // namespace dabke::test

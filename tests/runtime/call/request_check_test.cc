#include <limits>

#include <catch2/catch.hpp>

#include "runtime/call/request_check.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

const std::vector<Rank> kRanks = {0, 2, 3};

Request request_of(CollectiveKind kind, DType dtype = DType::f32, Shape shape = {6, 2}) {
  Request request;
  request.kind = kind;
  request.name = "grad";
  request.op = ReduceOp::sum;
  request.tensors.push_back({"grad", dtype, std::move(shape)});
  return request;
}

std::string said_of(const Request& request, std::vector<std::int64_t> splits = {}) {
  return check_request(request, {7, kRanks}, splits).message();
}

}  // namespace

TEST_CASE("a request that can run is let through") {
  CHECK(said_of(request_of(CollectiveKind::allreduce)).empty());
  CHECK(said_of(request_of(CollectiveKind::alltoall)).empty());
  CHECK(said_of(request_of(CollectiveKind::alltoall), {1, 0, 5}).empty());
}

TEST_CASE("what is wrong with a request alone is told with the collective, the tensor and the value") {
  Request nameless = request_of(CollectiveKind::allreduce);
  nameless.name.clear();
  CHECK(said_of(nameless) == "allreduce: the name is empty");

  Request from_outside = request_of(CollectiveKind::broadcast);
  from_outside.root = 1;
  CHECK(said_of(from_outside) ==
        "broadcast 'grad': root rank 1 is not in process set 7, which has ranks 0, 2, 3");

  Request averaged_bool = request_of(CollectiveKind::allreduce, DType::b8);
  averaged_bool.op = ReduceOp::average;
  CHECK(said_of(averaged_bool) ==
        "allreduce 'grad': tensor 'grad' is bool, which has no average; use one of sum, min, max, product, "
        "bitwise_and, bitwise_or, bitwise_xor");

  Request bits_of_floats = request_of(CollectiveKind::reducescatter);
  bits_of_floats.op = ReduceOp::bitwise_or;
  CHECK_THAT(
      said_of(bits_of_floats),
      Contains("'grad' is float32, which has no bitwise_or; use one of average, sum, min, max, product"));

  Request endless = request_of(CollectiveKind::allreduce, DType::i32);
  endless.prescale = std::numeric_limits<double>::infinity();
  CHECK_THAT(said_of(endless), Contains("'grad' is int32") && Contains("prescale factor is inf"));

  CHECK_THAT(said_of(request_of(CollectiveKind::allgather, DType::f32, Shape{})),
             Contains("'grad' is a scalar"));
}

TEST_CASE("a name is UTF-8 of at most 4096 bytes, whichever tensor of a group has it") {
  const std::string longest(4096, 'x'), umlaut = "Schicht \xc3\xa4", too_long = longest + "x",
                                        wrong = "w\xff'";
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    Request group = request_of(CollectiveKind::allreduce);
    group.tensors.push_back({"bias", DType::f32, {2}});
    const auto with = [&](const std::string& name) {
      group.tensors[which].name = name;
      if (which == 0) group.name = name;
      return said_of(group);
    };
    CHECK(with(longest).empty());
    CHECK(with(umlaut).empty());
    CHECK(with("") == "allreduce: the name is empty");
    CHECK_THAT(with(too_long), Contains("has 4097 bytes; a name has at most 4096") && Contains("'xxxx"));
    CHECK(with(too_long).size() < 200);
    CHECK(with(wrong) == "allreduce: the name 'w\\xff'' is not UTF-8; pass one that is");
  }
}

TEST_CASE("the splits of an alltoall are held against its rows and the set's ranks") {
  const Request request = request_of(CollectiveKind::alltoall, DType::f32, {7});
  CHECK_THAT(said_of(request), Contains("7 rows cannot be divided evenly among 3 ranks; pass splits"));
  CHECK_THAT(said_of(request, {3, 4}), Contains("2 splits were given for 3 ranks"));
  CHECK_THAT(said_of(request, {3, 5, -1}), Contains("split -1 is not between 0 and the 7 rows"));
  CHECK_THAT(said_of(request, {3, 3, 3}), Contains("the splits add up to 9, but there are 7 rows"));
  constexpr std::int64_t kMany = std::int64_t{1} << 62;
  CHECK_THAT(said_of(request_of(CollectiveKind::alltoall, DType::u8, {kMany, 0}), {kMany, kMany, kMany}),
             Contains("the splits add up to more than 2^63 - 1, but there are 4611686018427387904 rows"));
}

}  // namespace dabke::test

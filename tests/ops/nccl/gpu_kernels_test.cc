// The kernels against those of the host, through a stream of the double.
#include <catch2/catch.hpp>

#include "tests/ops/nccl/kernel_checks.h"
#include "tests/ops/nccl/session.h"

namespace dabke::testing {
namespace {

using Texts = std::vector<std::string>;

Texts what_is_wrong(Texts (*check)(DeviceStream&)) {
  const auto stream = must(session().open(Device{DeviceType::cuda, 0}));
  return check(*stream);
}

}  // namespace

TEST_CASE("the kernels of a GPU copy, scale and convert as the host's do, to the bit") {
  CHECK(what_is_wrong(wrong_copies) == Texts());
}

TEST_CASE("hundreds of pieces are copied whatever their lengths and wherever they begin") {
  CHECK(what_is_wrong(wrong_pieces) == Texts());
}

TEST_CASE("elements at odd addresses are scaled as others are") {
  CHECK(what_is_wrong(wrong_odd_addresses) == Texts());
}

TEST_CASE("neutral elements are the host's") { CHECK(what_is_wrong(wrong_neutral_elements) == Texts()); }

TEST_CASE("what is copied to the host and back comes out as it was") {
  CHECK(what_is_wrong(wrong_transfers) == Texts());
}

}  // namespace dabke::testing

// Compares the kernels with those of the host, on a stream of the fake driver.
#include <thread>

#include <catch2/catch.hpp>

#include "ops/nccl/gpu_kernels.h"
#include "tests/fake_cuda/doubles.h"
#include "tests/ops/nccl/kernel_checks.h"
#include "tests/ops/nccl/session.h"

namespace dabke::test {
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

TEST_CASE("hundreds of pieces are one launch, of what moves bytes and of what converts") {
  const auto stream = must(session().open(Device{DeviceType::cuda, 0}));
  const std::size_t most = ops::GpuKernels::kMostPieces;
  auto* const from = static_cast<float*>(allocate_on_double(0, 2 * most * sizeof(float)));
  auto* const to = static_cast<f16*>(allocate_on_double(0, 2 * most * sizeof(float)));
  const auto launches = [&](std::size_t count, DType dtype) {
    std::vector<ElementCopy> pieces;
    for (std::size_t i = 0; i < count; ++i) pieces.push_back({to + 2 * i, from + i, 1});
    pieces.push_back({to, from, 0});  // an empty piece needs no launch
    const std::uint64_t before = kernels_run(0);
    must(stream->copy(pieces, dtype, DType::f32, 1));
    const auto end = must(stream->record());
    while (!must(end->is_reached())) std::this_thread::yield();
    return kernels_run(0) - before;
  };
  for (const DType dtype : {DType::f32, DType::f16}) {
    CHECK(launches(0, dtype) == 0);
    CHECK(launches(1, dtype) == 1);
    CHECK(launches(128, dtype) == 1);
    CHECK(launches(129, dtype) == (most < 129 ? 2 : 1));
    CHECK(launches(most, dtype) == 1);
    CHECK(launches(most + 1, dtype) == 2);
  }
}

TEST_CASE("elements at odd addresses are scaled and converted as others are") {
  CHECK(what_is_wrong(wrong_odd_addresses) == Texts());
}

TEST_CASE("neutral elements are the host's") { CHECK(what_is_wrong(wrong_neutral_elements) == Texts()); }

TEST_CASE("what is copied to the host and back comes out as it was") {
  CHECK(what_is_wrong(wrong_transfers) == Texts());
}

}  // namespace dabke::test

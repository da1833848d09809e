#include "runtime/backend/packer.h"

#include <catch2/catch.hpp>
#include <cstring>

namespace dabke::test {
namespace {

using Floats = std::vector<float>;

/// A batch of float32 on rank `rank` of `size`.
struct Packing {
  Packing(CollectiveKind kind, int rank, int size)
      : set{0, std::vector<Rank>(static_cast<std::size_t>(size)), rank} {
    batch.kind = kind;
    batch.process_set = &set;
  }
  void add(const Floats& input, Floats& output, std::vector<std::int64_t> receive = {},
           std::vector<std::int64_t> send = {}) {
    counts.push_back(std::make_unique<std::vector<std::int64_t>>(std::move(receive)));
    const auto& receives = *counts.back();
    counts.push_back(std::make_unique<std::vector<std::int64_t>>(std::move(send)));
    batch.entries.push_back(
        {input.data(), output.data(), static_cast<std::int64_t>(input.size()), receives, *counts.back()});
  }
  ProcessSetInfo set;
  Batch batch;
  std::vector<std::unique_ptr<std::vector<std::int64_t>>> counts;
};

Floats floats(const std::byte* memory, std::size_t elements) {
  Floats values(elements);
  if (elements != 0) std::memcpy(values.data(), memory, elements * sizeof(float));
  return values;
}

}  // namespace

TEST_CASE("one tensor is reduced in its output, without a copy when it is there already") {
  Floats input{1, 2, 3}, output(3);
  Packer packer;
  Packing out_of_place(CollectiveKind::allreduce, 0, 2);
  out_of_place.batch.prescale = 2;
  out_of_place.batch.postscale = 0.5;
  out_of_place.add(input, output);
  const auto packed = packer.pack(out_of_place.batch);
  REQUIRE(packed.is_ok());
  CHECK(packed->data == reinterpret_cast<std::byte*>(output.data()));
  CHECK(packed->elements == 3);
  CHECK(output == Floats{2, 4, 6});
  CHECK(input == Floats{1, 2, 3});
  CHECK(packer.unpack(out_of_place.batch).is_ok());
  CHECK(output == Floats{1, 2, 3});

  Packing in_place(CollectiveKind::allreduce, 0, 2);
  in_place.add(output, output);
  CHECK(packer.pack(in_place.batch)->data == reinterpret_cast<std::byte*>(output.data()));
}

TEST_CASE("several tensors lie one behind the other at aligned places, with zeros between them") {
  Floats a{1, 2, 3}, b{4}, none, out_a(3), out_b(1);
  Packer packer;
  Packing packing(CollectiveKind::allreduce, 0, 2);
  packing.batch.postscale = 10;
  packing.add(a, out_a);
  packing.add(none, none);
  packing.add(b, out_b);
  const auto packed = packer.pack(packing.batch);
  REQUIRE(packed.is_ok());
  Floats want(32, 0);
  want[0] = 1, want[1] = 2, want[2] = 3, want[16] = 4;
  CHECK(floats(packed->data, packed->elements) == want);
  CHECK(reinterpret_cast<std::uintptr_t>(packed->data) % kFusionAlignment == 0);
  CHECK(packer.unpack(packing.batch).is_ok());
  CHECK(out_a == Floats{10, 20, 30});
  CHECK(out_b == Floats{40});
}

TEST_CASE("a broadcast's inputs are read on its root alone") {
  Floats a{1, 2}, b{3}, out_a(2), out_b(1);
  for (const int rank : {0, 1}) {
    Packer packer;
    Packing packing(CollectiveKind::broadcast, rank, 2);
    packing.batch.root = 1;
    packing.add(a, out_a);
    packing.add(b, out_b);
    const auto packed = packer.pack(packing.batch);
    REQUIRE(packed.is_ok());
    if (rank == 1) CHECK(floats(packed->data, 2) == a);
    std::memset(packed->data, 0, packed->elements * sizeof(float));
    CHECK(packer.unpack(packing.batch).is_ok());
    CHECK(out_a == Floats{0, 0});
  }
}

TEST_CASE("gathered blocks hold all tensors of a rank, and are sorted into the outputs") {
  Floats a{1}, b{2, 3}, out_a(3), out_b(3);
  Packer packer;
  Packing packing(CollectiveKind::allgather, 1, 2);
  packing.add(a, out_a, {2, 1});
  packing.add(b, out_b, {1, 2});
  const auto packed = packer.pack(packing.batch);
  REQUIRE(packed.is_ok());
  CHECK(std::vector(packed->receive_counts.begin(), packed->receive_counts.end()) ==
        std::vector<std::size_t>{3, 3});
  CHECK(floats(packed->data + 12, 3) == Floats{1, 2, 3});
  const Floats from_rank_0{7, 8, 9};
  std::memcpy(packed->data, from_rank_0.data(), 12);
  CHECK(packer.unpack(packing.batch).is_ok());
  CHECK(out_a == Floats{7, 8, 1});
  CHECK(out_b == Floats{9, 2, 3});
}

TEST_CASE("float32 is packed as bfloat16, and comes out as float32, each scaled on the way") {
  Floats input{1.0f + 0x1p-9f, 2, 3}, output(3);
  Packer packer;
  Packing packing(CollectiveKind::allreduce, 0, 2);
  packing.batch.prescale = 2;
  packing.batch.divisor = 4;
  packing.add(input, output);
  const auto packed = packer.pack(packing.batch, DType::bf16);
  REQUIRE(packed.is_ok());
  CHECK(packed->dtype == DType::bf16);
  REQUIRE(packed->elements >= 3);
  bf16 halves[3];
  std::memcpy(halves, packed->data, sizeof halves);
  CHECK(Floats{static_cast<float>(halves[0]), static_cast<float>(halves[1]), static_cast<float>(halves[2])} ==
        Floats{2, 4, 6});
  CHECK(packer.unpack(packing.batch).is_ok());
  CHECK(output == Floats{0.5, 1, 1.5});
}

TEST_CASE("scattered blocks hold all tensors' slices for a rank") {
  Floats a{1, 2, 3}, b{4, 5}, out_a(1), out_b(1);
  Packer packer;
  Packing packing(CollectiveKind::reducescatter, 1, 2);
  packing.batch.prescale = 2;
  packing.batch.postscale = 0.5;
  packing.add(a, out_a, {2, 1});
  packing.add(b, out_b, {1, 1});
  const auto packed = packer.pack(packing.batch);
  REQUIRE(packed.is_ok());
  CHECK(floats(packed->send, packed->send_elements) == Floats{2, 4, 8, 6, 10});
  CHECK(packed->elements == 2);
  const Floats sums{20, 30};
  std::memcpy(packed->data, sums.data(), 8);
  CHECK(packer.unpack(packing.batch).is_ok());
  CHECK(out_a == Floats{10});
  CHECK(out_b == Floats{15});
}

TEST_CASE("exchanged blocks hold all tensors' pieces for a rank, and from one") {
  Floats a{1, 2, 3}, b{4}, out_a(2), out_b(2);
  Packer packer;
  Packing packing(CollectiveKind::alltoall, 0, 2);
  packing.add(a, out_a, {1, 1}, {1, 2});
  packing.add(b, out_b, {0, 2}, {0, 1});
  const auto packed = packer.pack(packing.batch);
  REQUIRE(packed.is_ok());
  CHECK(floats(packed->send, packed->send_elements) == Floats{1, 2, 3, 4});
  CHECK(std::vector(packed->send_counts.begin(), packed->send_counts.end()) ==
        std::vector<std::size_t>{1, 3});
  CHECK(std::vector(packed->receive_counts.begin(), packed->receive_counts.end()) ==
        std::vector<std::size_t>{1, 3});
  const Floats came{1, 20, 30, 40};
  std::memcpy(packed->data, came.data(), 16);
  CHECK(packer.unpack(packing.batch).is_ok());
  CHECK(out_a == Floats{1, 20});
  CHECK(out_b == Floats{30, 40});
}

TEST_CASE("a lone tensor is exchanged from input to output, but in place through a copy") {
  Floats input{1, 2}, output(2);
  Packer packer;
  Packing apart(CollectiveKind::alltoall, 0, 2);
  apart.add(input, output, {1, 1}, {1, 1});
  const auto direct = packer.pack(apart.batch);
  CHECK(direct->send == reinterpret_cast<const std::byte*>(input.data()));
  CHECK(direct->data == reinterpret_cast<std::byte*>(output.data()));
  Packing in_place(CollectiveKind::alltoall, 0, 2);
  in_place.add(output, output, {1, 1}, {1, 1});
  const auto copied = packer.pack(in_place.batch);
  CHECK(copied->send != copied->data);
  CHECK(copied->data == reinterpret_cast<std::byte*>(output.data()));
}

TEST_CASE("a batch too large for memory is an error that names the knob") {
  FusionBuffer buffer;
  const auto reserved = buffer.reserve(~std::size_t{0} / 2);
  CHECK(reserved.status().code() == Code::out_of_memory);
  CHECK(reserved.status().message().find("DABKE_FUSION_THRESHOLD") != std::string::npos);
  CHECK(buffer.reserve(100).is_ok());
  CHECK(buffer.capacity() >= 100);
}

}  // namespace dabke::test

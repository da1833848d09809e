// The pool of pinned host memory that tensors are staged through.
#include <catch2/catch.hpp>

#include "tests/ops/nccl/session.h"

namespace dabke::test {
namespace {

const std::shared_ptr<DeviceMemory>& pinned(const std::shared_ptr<DeviceStream>& stream) {
  return stream->host_memory();
}

}  // namespace

TEST_CASE("pinned memory that was freed is kept for whoever needs as much, until it is given back") {
  const auto stream = must(session().open(Device{DeviceType::cuda, 0}));
  DeviceMemory& memory = *pinned(stream);
  void* const first = memory.allocate(5000);
  void* const small = memory.allocate(1);
  CHECK(memory.kept_bytes() == 0);
  memory.free(first);
  memory.free(small);
  CHECK(memory.kept_bytes() == 8192 + 4096);
  {
    const Planned none_is_there("cuMemHostAlloc * 1 2");
    CHECK(memory.allocate(8192) == first);
    CHECK(memory.kept_bytes() == 4096);
    memory.free(first);
  }
  memory.trim();
  CHECK(memory.kept_bytes() == 0);
}

TEST_CASE("where pinned memory is short, what is kept of other sizes is given back for it") {
  const auto stream = must(session().open(Device{DeviceType::cuda, 0}));
  DeviceMemory& memory = *pinned(stream);
  const Planned short_once("cuMemHostAlloc * 2 2");
  memory.free(memory.allocate(4096));
  void* const large = memory.allocate(1 << 20);
  CHECK(large != nullptr);
  CHECK(memory.kept_bytes() == 0);
  memory.free(large);
}

}  // namespace dabke::test

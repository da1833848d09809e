// Stores that bypass the caches: the right bytes, and visible before later stores.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/kernels/kernels.h"
#include "tests/child_process.h"

namespace dabke::test {
namespace {

constexpr std::size_t kBytes = 3 * 64 * 5 + 41;  // ends in the middle of a line
constexpr std::size_t kOffset = 23;              // begins there, too

struct Shared {
  alignas(64) std::atomic<std::uint32_t> written;
  alignas(64) std::atomic<std::uint32_t> read;
  alignas(64) unsigned char data[kOffset + kBytes + 64];
};

}  // namespace

TEST_CASE("what is streamed is copied whatever the alignment and the length, and nothing beside it") {
  for (const std::string& target : kernels::target_names()) {
    kernels::use_target(target);
    CAPTURE(target);
    std::vector<unsigned char> from(2000);
    std::iota(from.begin(), from.end(), static_cast<unsigned char>(1));
    for (const std::size_t bytes : {0UL, 1UL, 63UL, 64UL, 255UL, 256UL, 257UL, 1000UL, 1024UL}) {
      for (const std::size_t to : {0UL, 1UL, 8UL, 63UL}) {
        for (const std::size_t begin : {0UL, 4UL, 31UL}) {
          std::vector<unsigned char> seen(64 + 63 + 1024 + 64, 0xee);
          std::vector<unsigned char> want = seen;
          std::memcpy(want.data() + 64 + to, from.data() + begin, bytes);
          kernels::stream_copy(seen.data() + 64 + to, from.data() + begin, bytes);
          CAPTURE(bytes, to, begin);
          CHECK(seen == want);
        }
      }
    }
  }
  kernels::use_target("");
}

// On x86, streaming stores are not ordered like other stores, and ThreadSanitizer does not see them. This
// test fails if stream_copy lacks its fence.
TEST_CASE("another process that sees what is stored after a streamed copy sees the copy") {
  constexpr std::uint32_t kRounds = 100'000;
  auto* const shared = static_cast<Shared*>(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  ChildProcess reader([&] {
    std::uint32_t wrong = 0;
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      while (shared->written.load(std::memory_order_acquire) != round) {
      }
      const auto value = static_cast<unsigned char>(round);
      for (std::size_t i = kBytes; i-- > 0;) wrong += shared->data[kOffset + i] != value ? 1 : 0;
      shared->read.store(round, std::memory_order_release);
    }
    return wrong == 0 ? 0 : 1;
  });
  std::vector<unsigned char> values(kBytes);
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    std::memset(values.data(), static_cast<int>(round & 0xff), kBytes);
    kernels::stream_copy(shared->data + kOffset, values.data(), kBytes);
    shared->written.store(round, std::memory_order_release);
    while (shared->read.load(std::memory_order_acquire) != round) {
    }
  }
  CHECK(reader.wait() == 0);
  ::munmap(shared, sizeof(Shared));
}

}  // namespace dabke::test

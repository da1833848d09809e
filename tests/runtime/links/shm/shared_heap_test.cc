#include "runtime/links/shm/shared_heap.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

namespace dabke::test {

using Catch::Contains;

namespace {

std::size_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// The size of the part of the file that has memory.
std::size_t reserved_bytes(const shm::SharedHeap& heap) {
  struct stat info {};
  return ::fstat(heap.descriptor(), &info) == 0 ? static_cast<std::size_t>(info.st_blocks) * 512 : 0;
}

struct FileSizeLimit {
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before{};
};

}  // namespace

TEST_CASE("free stretches are found by size and alignment, and join their neighbours") {
  shm::FreeRanges ranges;
  CHECK_FALSE(ranges.take(1, 1));
  ranges.give(100, 50);
  ranges.give(200, 10);
  CHECK(*ranges.take(10, 1) == 200);  // the tightest fit
  CHECK(*ranges.take(20, 64) == 128);
  CHECK_FALSE(ranges.take(29, 1));  // 28 and 2 are left
  ranges.give(128, 20);
  CHECK(*ranges.take(50, 1) == 100);
}

TEST_CASE("memory of every size is aligned, apart from all other, and found by any address in it") {
  shm::SharedHeap heap;
  std::vector<std::pair<std::byte*, std::size_t>> all;
  for (const std::size_t bytes :
       {0UL, 1UL, 64UL, 65UL, 1000UL, 65'536UL, 100'000UL, 3'000'000UL, 5'000'000UL, 40'000'000UL}) {
    auto memory = heap.allocate(bytes);
    REQUIRE(memory.is_ok());
    CAPTURE(bytes);
    CHECK(address(*memory) % (bytes >= 65'536 ? 4096 : 64) == 0);
    std::memset(*memory, static_cast<int>(all.size()), bytes);
    all.emplace_back(static_cast<std::byte*>(*memory), bytes);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [data, bytes] = all[i];
    if (bytes == 0) continue;
    CHECK(data[0] == std::byte(i));
    CHECK(data[bytes - 1] == std::byte(i));
    const auto place = heap.place_of(data, bytes);
    REQUIRE(place);
    CHECK(*place + bytes <= heap.extent());
    CHECK(*heap.place_of(data + bytes - 1, 1) == *place + bytes - 1);
    CHECK_FALSE(heap.place_of(data, bytes + 4096));
    std::byte seen{};
    REQUIRE(::pread(heap.descriptor(), &seen, 1, static_cast<off_t>(*place + bytes / 2)) == 1);
    CHECK(seen == std::byte(i));
  }
  std::byte elsewhere{};
  CHECK_FALSE(heap.place_of(&elsewhere, 1));
}

TEST_CASE("a hundred thousand small allocations take one descriptor, and freed memory is used again") {
  shm::SharedHeap heap;
  const auto descriptors = open_descriptors();
  std::mt19937 random(1);
  std::vector<void*> all;
  for (int i = 0; i < 100'000; ++i) {
    auto memory = heap.allocate(1 + random() % 500);
    if (!memory) FAIL(memory.status().message());
    all.push_back(*memory);
  }
  CHECK(open_descriptors() <= descriptors + 1);
  const std::size_t extent = heap.extent();
  std::shuffle(all.begin(), all.end(), random);
  bool all_freed = true;
  for (void* const memory : all) all_freed = heap.free(memory).is_ok() && all_freed;
  CHECK(all_freed);
  CHECK(reserved_bytes(heap) <= std::size_t{33} << 20);  // one region is kept
  void* const again = *heap.allocate(10'000'000);
  CHECK(heap.extent() == extent);
  CHECK(heap.free(again).is_ok());
}

TEST_CASE("what was not allocated here, or was freed before, cannot be freed") {
  shm::SharedHeap heap;
  int elsewhere = 0;
  CHECK(heap.free(&elsewhere).code() == Code::invalid_argument);
  auto* const memory = static_cast<std::byte*>(*heap.allocate(1000));
  CHECK(heap.free(memory + 64).code() == Code::invalid_argument);
  CHECK(heap.free(memory).is_ok());
  CHECK_THAT(heap.free(memory).message(), Contains("freed before"));
}

TEST_CASE("memory that is in use is freed once the last use is over") {
  shm::SharedHeap heap;
  auto* const memory = static_cast<std::byte*>(*heap.allocate(1000));
  auto first = heap.use(memory);
  auto second = heap.use(memory + 999);
  CHECK_FALSE(heap.use(&heap));
  std::atomic<bool> is_over{false};
  auto freed = std::async(std::launch::async, [&] {
    const bool is_well = heap.free(memory).is_ok();
    return is_well && is_over;
  });
  while (heap.place_of(memory, 1)) std::this_thread::yield();  // until its free has begun
  CHECK(heap.free(memory).code() == Code::invalid_argument);
  first = {};
  is_over = true;
  second = {};
  CHECK(freed.get());
}

TEST_CASE("shortage is an error that says what to do, and what was there stays usable") {
  shm::SharedHeap heap;
  void* const before = *heap.allocate(100);
  {
    const FileSizeLimit limit(std::size_t{8} << 20);
    const auto refused = heap.allocate(10'000'000);
    REQUIRE_FALSE(refused.is_ok());
    CHECK(refused.status().code() == Code::out_of_memory);
    CHECK_THAT(refused.status().message(), Contains("ulimit -f"));
    CHECK(heap.allocate(100).is_ok());
  }
  CHECK(heap.allocate(std::size_t{1} << 62).status().code() == Code::out_of_memory);
  CHECK(heap.allocate(10'000'000).is_ok());
  CHECK(heap.free(before).is_ok());
}

TEST_CASE("threads allocate, look up and free at the same time") {
  shm::SharedHeap heap;
  std::vector<std::future<bool>> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.push_back(std::async(std::launch::async, [&heap, seed] {
      std::mt19937 random(seed);
      bool is_well = true;
      std::vector<std::pair<unsigned char*, std::size_t>> own;
      for (int i = 0; i < 3000 && is_well; ++i) {
        const std::size_t bytes = 1 + random() % (i % 500 == 0 ? 5'000'000 : 2000);
        auto* const memory = static_cast<unsigned char*>(*heap.allocate(bytes));
        const auto use = heap.use(memory);
        std::memset(memory, static_cast<int>(seed), std::min<std::size_t>(bytes, 2000));
        own.emplace_back(memory, bytes);
        if (own.size() < 20) continue;
        std::swap(own.back(), own[random() % own.size()]);
        const auto [data, size] = own.back();
        is_well = data == memory || (data[0] == seed && heap.place_of(data, size) && heap.free(data).is_ok());
        if (data != memory) own.pop_back();
      }
      for (const auto& [data, size] : own) is_well = heap.free(data).is_ok() && is_well;
      return is_well;
    }));
  }
  for (auto& thread : threads) CHECK(thread.get());
}

}  // namespace dabke::test

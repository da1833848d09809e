#include "runtime/base/threads/block_pool.h"

#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

struct Item final : Pooled<Item> {
  explicit Item(std::uint64_t value) : number(value), again(value) {}
  std::uint64_t number, again;
};

}  // namespace

TEST_CASE("objects of a pool have memory of their own while they live") {
  std::set<const Item*> places;
  std::vector<std::unique_ptr<Item>> items;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 1000; ++i)
      places.insert(items.emplace_back(std::make_unique<Item>(i)).get());
    REQUIRE(places.size() == items.size());
    for (std::uint64_t i = 0; i < 1000; ++i) REQUIRE((items[i]->number == i && items[i]->again == i));
    items.clear();
    places.clear();
  }
}

TEST_CASE("threads that make objects and end each other's get no object twice") {
  constexpr std::uint64_t kItems = 20'000;
  std::vector<std::unique_ptr<Item>> made(kItems);
  const auto make_and_check = [&](std::uint64_t begin) {
    for (std::uint64_t i = begin; i < kItems; i += 2) made[i] = std::make_unique<Item>(i);
  };
  const auto end_and_make = [&](std::uint64_t begin) {
    for (std::uint64_t i = begin; i < kItems; i += 2) {
      made[i].reset();
      made[i] = std::make_unique<Item>(i + kItems);
    }
  };
  { const std::jthread a(make_and_check, 0), b(make_and_check, 1); }
  { const std::jthread a(end_and_make, 1), b(end_and_make, 0); }
  for (std::uint64_t i = 0; i < kItems; ++i) {
    REQUIRE(made[i]->number == i + kItems);
    REQUIRE(made[i]->again == i + kItems);
  }
}

TEST_CASE("shared objects of a pool count their references as others do") {
  const std::weak_ptr<int> seen = std::allocate_shared<int>(PoolAllocator<int>(), 7);
  CHECK(seen.expired());
  const auto kept = std::allocate_shared<int>(PoolAllocator<int>(), 8);
  CHECK(*std::shared_ptr<const int>(kept) == 8);
}

}  // namespace dabke::test

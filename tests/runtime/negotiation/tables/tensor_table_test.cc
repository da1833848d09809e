#include "runtime/negotiation/tables/tensor_table.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <fmt/format.h>
#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Known = std::set<std::pair<ProcessSetId, std::string>>;

Known seen(const negotiation::TensorTable& tensors) {
  Known all;
  tensors.for_each([&](const negotiation::TensorEntry& name) {
    REQUIRE(all.emplace(name.process_set, name.name).second);
  });
  return all;
}

}  // namespace

TEST_CASE("the table of names holds what was put in and not dropped, whatever was dropped before") {
  const unsigned seed = GENERATE(take(20, random(0, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  negotiation::ResponseCache cache;
  negotiation::TensorTable tensors(cache);
  Known known;
  for (int turn = 0; turn < 3000; ++turn) {
    const auto set = static_cast<ProcessSetId>(random() % 4);
    const std::string name = fmt::format("tensor.{}", random() % 100);
    if (random() % 200 == 0) {
      cache.remove_set(set);
      tensors.remove_set(set);
      std::erase_if(known, [set](const auto& one) { return one.first == set; });
    } else if (random() % 2 == 0) {
      negotiation::TensorEntry& got = tensors.get(set, name);
      REQUIRE((got.name == name && got.process_set == set));
      REQUIRE(&got == tensors.find(set, name));
      known.emplace(set, name);
    } else if (negotiation::TensorEntry* const found = tensors.find(set, name); found != nullptr) {
      tensors.tidy(*found);  // the entry holds nothing
      known.erase({set, name});
      REQUIRE(tensors.find(set, name) == nullptr);
    }
    REQUIRE((tensors.find(set, name) != nullptr) == known.contains({set, name}));
  }
  CHECK(seen(tensors) == known);
  for (const auto& [set, name] : known) CHECK(tensors.find(set, name) != nullptr);
  tensors.clear();
  CHECK(seen(tensors).empty());
  CHECK(tensors.find(0, "tensor.1") == nullptr);
}

TEST_CASE("a name stays where it is while others come and go, and its slot finds it") {
  negotiation::ResponseCache cache;
  negotiation::TensorTable tensors(cache);
  negotiation::TensorEntry& kept = tensors.get(kWorldSet, "kept");
  cache.bind(kept, 7, std::make_shared<const Request>());
  for (int i = 0; i < 1000; ++i) tensors.get(kWorldSet, fmt::format("other.{}", i));
  for (int i = 0; i < 1000; ++i) tensors.tidy(*tensors.find(kWorldSet, fmt::format("other.{}", i)));
  CHECK(tensors.find(kWorldSet, "kept") == &kept);
  CHECK(cache.find(7) == &kept);
  tensors.tidy(kept);  // it has a slot
  CHECK(tensors.find(kWorldSet, "kept") == &kept);
}

TEST_CASE("names are found whether they come in the order of their slots or not, and after some are gone") {
  constexpr int kNames = 50;
  const unsigned seed = GENERATE(take(20, random(0, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  negotiation::ResponseCache cache;
  negotiation::TensorTable tensors(cache);
  std::uint64_t uses = 0;
  const auto name_of = [](int i) { return fmt::format("tensor.{}", i); };
  std::vector<wire::Slot> slots(kNames);
  const auto bind = [&](int i) {
    slots[static_cast<std::size_t>(i)] = ++uses << 32 | static_cast<wire::Slot>(i);
    cache.bind(tensors.get(kWorldSet, name_of(i)), slots[static_cast<std::size_t>(i)], nullptr);
  };
  for (int i = 0; i < kNames; ++i) bind(i);
  std::vector<int> order(kNames);
  std::iota(order.begin(), order.end(), 0);
  for (int step = 0; step < 30; ++step) {
    if (step % 5 == 4) std::ranges::shuffle(order, random);
    for (const int i : order) {
      negotiation::TensorEntry& name = tensors.get(kWorldSet, name_of(i));
      REQUIRE((name.name == name_of(i) && name.process_set == kWorldSet));
      REQUIRE(&name == cache.find(slots[static_cast<std::size_t>(i)]));
    }
    const int gone = static_cast<int>(random() % kNames);  // evicted, and dropped
    negotiation::TensorEntry& dropped = *tensors.find(kWorldSet, name_of(gone));
    cache.unbind(dropped);
    tensors.tidy(dropped);
    REQUIRE(cache.find(slots[static_cast<std::size_t>(gone)]) == nullptr);
    if (random() % 2 == 0) REQUIRE(tensors.get(1, name_of(gone)).process_set == 1);  // of another set
    bind(gone);
  }
}

TEST_CASE("submissions of one name come out as they went in") {
  negotiation::Submissions waiting;
  CHECK(waiting.empty());
  for (std::uint64_t n = 1; n <= 5; ++n) {
    waiting.push({negotiation::Token{n}, nullptr});
    CHECK(waiting.size() == n);
    CHECK(waiting[n - 1].token == negotiation::Token{n});
  }
  for (std::uint64_t n = 1; n <= 3; ++n) CHECK(waiting.pop({}).token == negotiation::Token{n});
  waiting.push({negotiation::Token{6}, nullptr});
  for (std::uint64_t n = 4; n <= 6; ++n) CHECK(waiting.pop({}).token == negotiation::Token{n});
  CHECK(waiting.empty());
  CHECK(waiting.size() == 0);
}

TEST_CASE("a set of reporters has no end") {
  negotiation::ReporterSet reporters;
  for (const int reporter : {0, 63, 64, 1000}) {
    CHECK_FALSE(reporters.contains(reporter));
    reporters.insert(reporter);
    CHECK(reporters.contains(reporter));
    CHECK_FALSE(reporters.contains(reporter + 1));
  }
  reporters.clear();
  for (const int reporter : {0, 63, 64, 1000}) CHECK_FALSE(reporters.contains(reporter));
}

}  // namespace dabke::test

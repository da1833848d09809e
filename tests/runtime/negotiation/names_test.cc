#include "runtime/negotiation/names.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <fmt/format.h>
#include <catch2/catch.hpp>

namespace dabke {
namespace {

using Known = std::set<std::pair<ProcessSetId, std::string>>;

Known seen(const Names& names) {
  Known all;
  names.for_each([&](const Name& name) { REQUIRE(all.emplace(name.process_set, name.name).second); });
  return all;
}

}  // namespace

TEST_CASE("the table of names holds what was put in and not dropped, whatever was dropped before") {
  const unsigned seed = GENERATE(take(20, random(0, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  Names names;
  Known known;
  for (int turn = 0; turn < 3000; ++turn) {
    const auto set = static_cast<ProcessSetId>(random() % 4);
    const std::string name = fmt::format("tensor.{}", random() % 100);
    if (random() % 200 == 0) {
      names.remove_set(set);
      std::erase_if(known, [set](const auto& one) { return one.first == set; });
    } else if (random() % 2 == 0) {
      Name& got = names.get(set, name);
      REQUIRE((got.name == name && got.process_set == set));
      REQUIRE(&got == names.find(set, name));
      known.emplace(set, name);
    } else if (Name* const found = names.find(set, name); found != nullptr) {
      names.tidy(*found);  // nothing is known of it
      known.erase({set, name});
      REQUIRE(names.find(set, name) == nullptr);
    }
    REQUIRE((names.find(set, name) != nullptr) == known.contains({set, name}));
  }
  CHECK(seen(names) == known);
  for (const auto& [set, name] : known) CHECK(names.find(set, name) != nullptr);
  names.clear();
  CHECK(seen(names).empty());
  CHECK(names.find(0, "tensor.1") == nullptr);
}

TEST_CASE("a name stays where it is while others come and go, and its slot finds it") {
  Names names;
  Name& kept = names.get(kWorldSet, "kept");
  names.bind(kept, 7, std::make_shared<const Request>());
  for (int i = 0; i < 1000; ++i) names.get(kWorldSet, fmt::format("other.{}", i));
  for (int i = 0; i < 1000; ++i) names.tidy(*names.find(kWorldSet, fmt::format("other.{}", i)));
  CHECK(names.find(kWorldSet, "kept") == &kept);
  CHECK(names.by_slot(7) == &kept);
  names.tidy(kept);  // its slot is known
  CHECK(names.find(kWorldSet, "kept") == &kept);
}

TEST_CASE("names are found whether they come in the order of their slots or not, and after some are gone") {
  constexpr int kNames = 50;
  const unsigned seed = GENERATE(take(20, random(0, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  Names names;
  std::uint64_t uses = 0;
  const auto name_of = [](int i) { return fmt::format("tensor.{}", i); };
  std::vector<Slot> slots(kNames);
  const auto bind = [&](int i) {
    slots[static_cast<std::size_t>(i)] = ++uses << 32 | static_cast<Slot>(i);
    names.bind(names.get(kWorldSet, name_of(i)), slots[static_cast<std::size_t>(i)], nullptr);
  };
  for (int i = 0; i < kNames; ++i) bind(i);
  std::vector<int> order(kNames);
  std::iota(order.begin(), order.end(), 0);
  for (int step = 0; step < 30; ++step) {
    if (step % 5 == 4) std::ranges::shuffle(order, random);
    for (const int i : order) {
      Name& name = names.get(kWorldSet, name_of(i));
      REQUIRE((name.name == name_of(i) && name.process_set == kWorldSet));
      REQUIRE(&name == names.by_slot(slots[static_cast<std::size_t>(i)]));
    }
    const int gone = static_cast<int>(random() % kNames);  // evicted, and dropped
    Name& dropped = *names.find(kWorldSet, name_of(gone));
    names.unbind(dropped);
    names.tidy(dropped);
    REQUIRE(names.by_slot(slots[static_cast<std::size_t>(gone)]) == nullptr);
    if (random() % 2 == 0) REQUIRE(names.get(1, name_of(gone)).process_set == 1);  // another set's
    bind(gone);
  }
}

TEST_CASE("submissions of one name come out as they went in") {
  Submissions waiting;
  CHECK(waiting.empty());
  for (Token token = 1; token <= 5; ++token) {
    waiting.push({token, nullptr});
    CHECK(waiting.size() == token);
    CHECK(waiting[token - 1].token == token);
  }
  for (Token token = 1; token <= 3; ++token) CHECK(waiting.pop({}).token == token);
  waiting.push({6, nullptr});
  for (Token token = 4; token <= 6; ++token) CHECK(waiting.pop({}).token == token);
  CHECK(waiting.empty());
  CHECK(waiting.size() == 0);
}

TEST_CASE("a set of reporters has no end") {
  ReporterSet reporters;
  for (const int reporter : {0, 63, 64, 1000}) {
    CHECK_FALSE(reporters.contains(reporter));
    reporters.insert(reporter);
    CHECK(reporters.contains(reporter));
    CHECK_FALSE(reporters.contains(reporter + 1));
  }
  reporters.clear();
  for (const int reporter : {0, 63, 64, 1000}) CHECK_FALSE(reporters.contains(reporter));
}

}  // namespace dabke

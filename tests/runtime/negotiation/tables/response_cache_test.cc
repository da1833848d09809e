#include "runtime/negotiation/tables/response_cache.h"

#include <catch2/catch.hpp>

#include "runtime/negotiation/tables/tensor_entry.h"

namespace dabke::test {
namespace {

RequestRef request_named(const std::string& name) {
  auto request = std::make_shared<Request>();
  request->name = name;
  return request;
}

negotiation::TensorEntry entry_of(ProcessSetId set) {
  negotiation::TensorEntry entry;
  entry.process_set = set;
  return entry;
}

}  // namespace

TEST_CASE("a slot means a tensor until it is bound to another, unbound, or its process set is gone") {
  negotiation::ResponseCache cache;
  negotiation::TensorEntry a = entry_of(kWorldSet), b = entry_of(1);
  cache.bind(a, 3, request_named("a"));
  cache.bind(b, 4, request_named("b"));
  CHECK(cache.find(3) == &a);
  CHECK(cache.find(wire::Slot{1} << 32 | 3) ==
        nullptr);  // the index has a new tensor, and this rank does not know yet
  cache.bind(a, 7, request_named("a of another shape"));
  CHECK(cache.find(3) == nullptr);
  CHECK(cache.find(7) == &a);
  cache.remove_set(1);
  CHECK(cache.find(4) == nullptr);
  cache.unbind(a);
  CHECK(cache.find(7) == nullptr);
  CHECK(a.slot == wire::kNoSlot);
}

TEST_CASE(
    "what a slot stood for is known after its eviction until all who may report it have heard of that") {
  negotiation::ResponseCache cache;
  negotiation::TensorEntry a = entry_of(kWorldSet), b = entry_of(kWorldSet);
  cache.bind(a, 0, request_named("a"));
  cache.bind(b, 1, request_named("b"));
  cache.evict(a, 10);
  cache.evict(b, 20);
  CHECK(cache.find(0) == nullptr);
  CHECK(cache.evicted(0)->name == "a");
  const auto all_have_seen = [](std::uint64_t number) {
    return [number](ProcessSetId, std::uint64_t) { return number; };
  };
  cache.forget_evicted(all_have_seen(9));
  CHECK(cache.count_evicted() == 2);
  cache.forget_evicted(all_have_seen(10));
  CHECK(cache.evicted(0) == nullptr);
  CHECK(cache.evicted(1)->name == "b");
  cache.remove_set(kWorldSet);
  CHECK(cache.count_evicted() == 0);
}

TEST_CASE("a slot that is given back is never given again, its index is") {
  negotiation::SlotAllocator slots(2);
  const wire::Slot first = *slots.take(kWorldSet);
  const wire::Slot second = *slots.take(1);
  CHECK_FALSE(slots.take(kWorldSet));
  slots.give_back(first);
  const wire::Slot third = *slots.take(kWorldSet);
  CHECK(wire::index_of(third) == wire::index_of(first));
  CHECK(third != first);
  slots.give_back_all(1);
  CHECK(wire::index_of(*slots.take(1)) == wire::index_of(second));
}

TEST_CASE("the slot that was ordered longest ago is the first to be taken back") {
  negotiation::SlotAllocator slots(3);
  const wire::Slot a = *slots.take(kWorldSet), b = *slots.take(kWorldSet), c = *slots.take(kWorldSet);
  slots.touch(a);
  CHECK(std::vector<wire::Slot>(slots.by_age().begin(), slots.by_age().end()) == std::vector{b, c, a});
}

TEST_CASE("without a capacity there are no slots") {
  CHECK_FALSE(negotiation::SlotAllocator(0).take(kWorldSet));
}

}  // namespace dabke::test

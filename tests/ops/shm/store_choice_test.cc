#include "ops/shm/store_choice.h"

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

/// A machine with these costs of a byte, by kind of store.
struct Machine {
  float plain = 1;
  float streaming = 1;
};

/// The number of periods that were streamed.
int streamed_periods(ops::StoreChoice& choice, const Machine& machine, int periods) {
  int streamed = 0;
  for (int i = 0; i < periods; ++i) {
    const bool streams = choice.streams();
    streamed += streams ? 1 : 0;
    choice.saw({streams, streams ? machine.streaming : machine.plain});
  }
  return streamed;
}

}  // namespace

TEST_CASE("where plain stores are as good they are used, but for a trial now and then") {
  ops::StoreChoice choice;
  CHECK_FALSE(choice.streams());
  CHECK(streamed_periods(choice, {1, 0.95f}, 1000) < 20);
}

TEST_CASE("where streaming is clearly better it is used, from soon after the start on") {
  ops::StoreChoice choice;
  streamed_periods(choice, {3, 1}, 3);
  CHECK(streamed_periods(choice, {3, 1}, 1000) > 980);
}

TEST_CASE("when the cores move away from each other, and back, the choice follows within some periods") {
  ops::StoreChoice choice;
  const Machine near{1, 1.2f}, far{3, 1.7f};
  streamed_periods(choice, near, 200);
  streamed_periods(choice, far, 40);
  CHECK(streamed_periods(choice, far, 200) > 190);
  streamed_periods(choice, near, 300);
  CHECK(streamed_periods(choice, near, 200) < 10);
}

TEST_CASE("what was stored before the others had heard of a trial does not count for it") {
  ops::StoreChoice choice;
  streamed_periods(choice, {3, 1}, 1);
  REQUIRE(choice.streams());  // the first trial
  for (int i = 0; i < 5; ++i) choice.saw({false, 3});
  CHECK(choice.streams());
  choice.saw({true, 1});
  CHECK(choice.streams());  // it is chosen from now on
  choice.saw({true, 1});
  CHECK(choice.streams());
}

TEST_CASE("a trial of which the ranks do not tell alike ends, and comes again much later") {
  ops::StoreChoice choice;
  streamed_periods(choice, {1, 5}, 1);
  REQUIRE(choice.streams());  // the first trial
  for (int i = 0; i < 3; ++i) choice.saw_no_agreement();
  CHECK(choice.streams());
  choice.saw_no_agreement();
  CHECK_FALSE(choice.streams());
  CHECK(streamed_periods(choice, {1, 5}, 400) == 0);
}

TEST_CASE("small batches are left alone, and there is a kind for each size and way") {
  CHECK_FALSE(ops::store_kind(65'535, false));
  CHECK(ops::store_kind(65'536, false) == 0U);
  CHECK(ops::store_kind(1 << 20, false) == 1U);
  CHECK(ops::store_kind(8 << 20, false) == 2U);
  CHECK(ops::store_kind(std::size_t{1} << 40, true) == ops::kStoreKinds - 1);
}

TEST_CASE("a cost goes through a word of memory, and none is nothing") {
  CHECK_FALSE(ops::unpacked(0));
  for (const bool streams : {false, true}) {
    const auto seen = ops::unpacked(ops::packed({streams, 123.5f}));
    REQUIRE(seen);
    CHECK(seen->streams == streams);
    CHECK(seen->ns_per_kb == Approx(123.5));
    CHECK(ops::unpacked(ops::packed({streams, 0})));
  }
}

}  // namespace dabke::test

#include "runtime/diagnosis/flight_recorder.h"

#include <thread>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

void submit(diagnosis::FlightRecorder& recorder, std::uint64_t number, std::string_view name) {
  recorder.record(diagnosis::FlightEvent::What::submitted, CollectiveKind::allreduce, kWorldSet, number, 1,
                  4 * number, name);
}

}  // namespace

TEST_CASE("the flight recorder gives back what it was told, the oldest first") {
  diagnosis::FlightRecorder recorder;
  const TimePoint then{std::chrono::seconds(7)};
  recorder.record(diagnosis::FlightEvent::What::finished, CollectiveKind::alltoall, 3, 41, 5, 1ULL << 40,
                  "layer1.grad", then);
  recorder.note("something is odd");
  const auto events = recorder.events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].what == diagnosis::FlightEvent::What::finished);
  CHECK(events[0].kind == CollectiveKind::alltoall);
  CHECK(events[0].process_set == 3);
  CHECK(events[0].number == 41);
  CHECK(events[0].tensors == 5);
  CHECK(events[0].size_bytes == 1ULL << 40);
  CHECK(events[0].at == then);
  CHECK(events[0].name == "layer1.grad");
  CHECK(events[1].what == diagnosis::FlightEvent::What::note);
  CHECK(events[1].name == "something is odd");
}

TEST_CASE("the flight recorder keeps the last events and counts all") {
  diagnosis::FlightRecorder recorder;
  const std::uint64_t all = 3 * diagnosis::FlightRecorder::kEvents + 17;
  for (std::uint64_t i = 1; i <= all; ++i) submit(recorder, i, "x");
  const auto events = recorder.events();
  REQUIRE(events.size() == diagnosis::FlightRecorder::kEvents);
  CHECK(events.front().number == all - diagnosis::FlightRecorder::kEvents + 1);
  CHECK(events.back().number == all);
  CHECK(recorder.count() == all);
}

TEST_CASE("of a long name the flight recorder keeps both ends") {
  diagnosis::FlightRecorder recorder;
  for (const std::size_t length : {0U, 1U, 79U, 80U, 81U, 1000U}) {
    std::string name;
    for (std::size_t i = 0; i < length; ++i) name += static_cast<char>('a' + i % 26);
    submit(recorder, 1, name);
    const std::string kept = recorder.events().back().name;
    if (length <= 80) {
      CHECK(kept == name);
    } else {
      CHECK(kept.size() == 80);
      CHECK(kept.starts_with(name.substr(0, 38) + "..."));
      CHECK(kept.ends_with(name.substr(length - 39)));
    }
  }
}

TEST_CASE("events that threads record while others read come whole, in the order of each thread") {
  diagnosis::FlightRecorder recorder;
  constexpr int kWriters = 3;
  constexpr std::uint64_t kEach = 20'000;
  std::atomic<int> left{kWriters};
  bool whole = true;
  bool ordered = true;
  std::uint64_t reads = 0;
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < kWriters; ++w) {
      writers.emplace_back([&recorder, &left, w] {
        for (std::uint64_t i = 1; i <= kEach; ++i) {
          recorder.record(diagnosis::FlightEvent::What::submitted, CollectiveKind::allreduce, w, i, i, i,
                          std::string(i % 70, static_cast<char>('a' + w)));
        }
        --left;
      });
    }
    bool is_last = false;
    while (!is_last) {
      is_last = left == 0;
      std::array<std::uint64_t, kWriters> last{};
      for (const diagnosis::FlightEvent& event : recorder.events()) {
        const auto writer = static_cast<std::size_t>(event.process_set);
        whole = whole && writer < kWriters && event.size_bytes == event.number &&
                event.tensors == event.number &&
                event.name == std::string(event.number % 70, static_cast<char>('a' + writer));
        if (!whole) break;
        ordered = ordered && event.number > last[writer];
        last[writer] = event.number;
        ++reads;
      }
    }
  }
  CHECK(whole);
  CHECK(ordered);
  CHECK(reads > 0);
}

}  // namespace dabke::test

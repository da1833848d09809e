#include "runtime/control/clock_offset.h"

#include <random>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

/// Two hosts. The clock of the other one is `ahead` of ours at first, and gains `drift` seconds a second.
class TwoHosts {
 public:
  TwoHosts(nanoseconds ahead, double drift, unsigned seed) : ahead_(ahead), drift_(drift), random_(seed) {}

  /// Both hosts send their beat. Each takes `fastest` and, on average, `extra` more. Then a second passes.
  void beat(nanoseconds fastest, nanoseconds extra) {
    const control::Beat ours = mine_.answer(now());
    const control::Beat theirs = other_.answer(theirs_at(now()));
    const auto way = [&] {
      std::exponential_distribution<double> more(1.0 / std::max(1.0, static_cast<double>(extra.count())));
      return fastest + nanoseconds(static_cast<std::int64_t>(more(random_)));
    };
    other_.take(ours, theirs_at(now() + way()));
    mine_.take(theirs, now() + way());
    passed_ += seconds(1);
  }

  TimePoint now() const { return TimePoint(std::chrono::hours(1)) + passed_; }
  nanoseconds truly_ahead() const { return theirs_at(now()) - now(); }
  std::optional<control::ClockOffset> told() const { return mine_.offset(now()); }

 private:
  TimePoint theirs_at(TimePoint at) const {
    const auto gained = static_cast<double>((at - TimePoint(std::chrono::hours(1))).count()) * drift_;
    return at + ahead_ + nanoseconds(static_cast<std::int64_t>(gained));
  }

  nanoseconds ahead_;
  double drift_;
  std::mt19937 random_;
  Duration passed_{};
  control::ClockComparison mine_, other_;
};

}  // namespace

TEST_CASE("before a beat has gone to and fro nothing is known of a clock") {
  TwoHosts hosts(seconds(5), 0, 1);
  CHECK_FALSE(hosts.told());
  hosts.beat(microseconds(50), nanoseconds(0));
  CHECK_FALSE(hosts.told());  // both were under way at the same time
  hosts.beat(microseconds(50), nanoseconds(0));
  REQUIRE(hosts.told());
  CHECK(std::chrono::abs(hosts.told()->ahead - seconds(5)) <= hosts.told()->error);
}

TEST_CASE("a clock's offset is right to within the error that is told, whatever the network does") {
  const nanoseconds ahead = seconds(GENERATE(0, -3000, 86400));
  const double drift = GENERATE(0.0, 80e-6, -150e-6);
  const auto seed = GENERATE(range(1u, 6u));
  TwoHosts hosts(ahead, drift, seed);
  CAPTURE(ahead.count(), drift, seed);
  for (int second = 0; second < 600; ++second) {
    // The network is full during one minute in five.
    hosts.beat(microseconds(50),
               second % 300 < 60 ? nanoseconds(milliseconds(5)) : nanoseconds(microseconds(30)));
    const auto told = hosts.told();
    if (second < 2) continue;
    REQUIRE(told);
    REQUIRE(std::chrono::abs(told->ahead - hosts.truly_ahead()) <= told->error);
    if (second > 240 && second % 300 > 120) REQUIRE(told->error < microseconds(400));
  }
  CHECK(std::abs(hosts.told()->drift - drift) < 10e-6);
}

TEST_CASE("a beat travels as a tag and three times, and what cannot be one is a message") {
  const control::Beat beat{1'234'567'890'123, 42, 99};
  const auto bytes = control::encode_beat(beat);
  const auto back = control::decode_beat(bytes);
  REQUIRE(back);
  CHECK(back->sent == beat.sent);
  CHECK(back->heard_sent == beat.heard_sent);
  CHECK(back->heard_at == beat.heard_at);
  CHECK_FALSE(control::decode_beat(std::span(bytes).first(control::kBeatBytes - 1)));
  auto other = bytes;
  other[0] = std::byte{0};
  CHECK_FALSE(control::decode_beat(other));
  other = control::encode_beat({-5, 42, 99});
  CHECK_FALSE(control::decode_beat(other));
}

}  // namespace dabke::test

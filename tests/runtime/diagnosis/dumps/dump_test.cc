#include "runtime/diagnosis/dumps/dump.h"

#include <random>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

diagnosis::Dump sample() {
  diagnosis::Dump dump;
  dump.reason = "stalled: 'x'";
  dump.incident = 4;
  dump.job = "0123";
  dump.epoch = 2;
  dump.rank = 3;
  dump.size = 8;
  dump.host = "ada";
  dump.pid = 4711;
  dump.unix_time = 1.5e9;
  dump.last_order = 1ULL << 40;
  dump.submitted = 99;
  dump.pending = {{"x", "allreduce", 1, "allreduce (sum) of float32 [4]", 60.25, "announced"}};
  dump.process_sets = {{1, {0, 3, 5}}};
  dump.events_before = 7;
  dump.events = {{"submitted", 61, "x", "allreduce", 1, 99, 1, 16},
                 {"note", 1, "odd \xff text", "", 0, 0, 0, 0}};
  dump.stacks = {{4711, "train", {"pause (libc.so.6)", "main at train.c:3 (train)"}}};
  dump.application_stack = "train.py:12 step\n";
  return dump;
}

}  // namespace

TEST_CASE("a dump comes back from its JSON as it was") {
  const auto parsed = diagnosis::parse_dump(diagnosis::to_json(sample(), 100));
  REQUIRE(parsed.is_ok());
  const diagnosis::Dump wanted = sample();
  CHECK(parsed->reason == wanted.reason);
  CHECK(parsed->incident == 4);
  CHECK(parsed->rank == 3);
  CHECK(parsed->size == 8);
  CHECK(parsed->host == "ada");
  CHECK(parsed->pid == 4711);
  CHECK(parsed->last_order == 1ULL << 40);
  CHECK(parsed->submitted == 99);
  REQUIRE(parsed->pending.size() == 1);
  CHECK(parsed->pending[0].signature == wanted.pending[0].signature);
  CHECK(parsed->pending[0].age == 60.25);
  CHECK(parsed->process_sets == wanted.process_sets);
  REQUIRE(parsed->events.size() == 2);
  CHECK(parsed->events[0].number == 99);
  // bytes that are not UTF-8 are replaced
  CHECK_THAT(parsed->events[1].name, Contains("odd") && Contains("text"));
  CHECK(parsed->events_before == 7);
  CHECK(parsed->stacks.at(0).frames == wanted.stacks[0].frames);
  CHECK(parsed->application_stack == wanted.application_stack);
}

TEST_CASE("a dump with room for fewer events keeps the newest and says how many are missing") {
  diagnosis::Dump dump;
  for (std::uint64_t i = 1; i <= 10; ++i)
    dump.events.push_back({"submitted", 0, "x", "allreduce", 0, i, 1, 4});
  const auto parsed = diagnosis::parse_dump(diagnosis::to_json(dump, 3));
  REQUIRE(parsed.is_ok());
  REQUIRE(parsed->events.size() == 3);
  CHECK(parsed->events[0].number == 8);
  CHECK(parsed->events_before == 7);
}

TEST_CASE("where the ranks' dumps are is told in one path, and where it is not one, in each") {
  CHECK(diagnosis::dumps_text({"/tmp/dabke-dump.a.rank0.json", "/tmp/dabke-dump.a.rank12.json"}, 13, true) ==
        "what the ranks were doing is in /tmp/dabke-dump.a.rank*.json");
  CHECK(diagnosis::dumps_text({"/tmp/dabke-dump.a.rank0.json", "/ada/dabke-dump.a.rank1.json"}, 2, false) ==
        "what the ranks were doing is in /ada/dabke-dump.a.rank*.json, /tmp/dabke-dump.a.rank*.json, each on "
        "its host");
  CHECK(diagnosis::dumps_text({"/tmp/dabke-dump.a.rank0.json"}, 1, true) ==
        "what it was doing is in /tmp/dabke-dump.a.rank0.json");
}

TEST_CASE("text that is no dump is refused, whatever is wrong with it") {
  CHECK_THAT(diagnosis::parse_dump("").status().message(), Contains("cannot be read"));
  CHECK_THAT(diagnosis::parse_dump("[]").status().message(), Contains("cannot be read"));
  CHECK_THAT(diagnosis::parse_dump("{}").status().message(), Contains("not a dump"));
  CHECK_THAT(diagnosis::parse_dump(R"({"format": "dabke-dump", "version": 99})").status().message(),
             Contains("version 99") && Contains("version 1"));
  const std::string good = diagnosis::to_json(sample(), 100);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int c = 0; c < changes; ++c) bad[random() % bad.size()] = static_cast<char>(random());
    if (i % 3 == 0) bad.resize(random() % bad.size());
    if (!diagnosis::parse_dump(bad).is_ok()) ++refused;  // and nothing else happens
  }
  CHECK(refused > 1000);
}

TEST_CASE("a dump's key is known whatever comes before it") {
  CHECK(diagnosis::is_dump_key("abcd/3/" + diagnosis::dump_key(2, 5)));
  CHECK_FALSE(diagnosis::is_dump_key("abcd/3/hello/5"));
}

}  // namespace dabke::test

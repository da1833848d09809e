#include "runtime/base/deadlines.h"

#include <catch2/catch.hpp>
#include <string>

using namespace dabke;
using std::chrono::milliseconds;

namespace {

constexpr TimePoint at(int ms) { return TimePoint(milliseconds(ms)); }

}  // namespace

TEST_CASE("the next of some deadlines is the earliest, whichever way one of them changes") {
  Deadlines list;
  CHECK(list.next() == kNever);
  Deadline first(list), second(list);
  CHECK(list.next() == kNever);
  first.set(at(20));
  CHECK(list.next() == at(20));
  second.set(at(10));
  CHECK(list.next() == at(10));
  second.set(at(30));
  CHECK(list.next() == at(20));
  first.clear();
  CHECK(list.next() == at(30));
  second.set_by(at(40));
  CHECK(list.next() == at(30));
  second.set_by(at(5));
  CHECK(list.next() == at(5));
  list.clear();
  CHECK(list.next() == kNever);
  CHECK_FALSE(first.is_set());
  CHECK_FALSE(second.is_set());
}

TEST_CASE("only those whose time has come are called, in the order in which they were made") {
  Deadlines list;
  std::string called;
  Deadline first(list, [&](TimePoint) { called += '1'; });
  Deadline second(list, [&](TimePoint) { called += '2'; });
  Deadline third(list, [&](TimePoint) { called += '3'; });
  first.set(at(20));
  second.set(at(10));
  third.set(at(21));
  list.run(at(9));
  CHECK(called.empty());
  list.run(at(20));
  CHECK(called == "12");
  CHECK(list.next() == at(21));
}

TEST_CASE("who is called and sets no new time is not called again") {
  Deadlines list;
  int calls = 0;
  Deadline once(list, [&](TimePoint) { ++calls; });
  once.set(at(10));
  for (int turn = 0; turn < 3; ++turn) list.run(at(10 + turn));
  CHECK(calls == 1);
  CHECK(list.next() == kNever);
}

TEST_CASE(
    "who is called may set the next time, and that of one behind it, which is called in the same turn") {
  Deadlines list;
  std::string called;
  Deadline* behind = nullptr;
  Deadline* self = nullptr;
  Deadline first(list, [&](TimePoint now) {
    called += '1';
    self->set(now + milliseconds(5));
    behind->set(now);
  });
  Deadline second(list, [&](TimePoint) { called += '2'; });
  self = &first;
  behind = &second;
  first.set(at(10));
  list.run(at(10));
  CHECK(called == "12");
  CHECK(list.next() == at(15));
}

TEST_CASE("a list that is a row of another is called when the first of its own is due") {
  Deadlines outer;
  Deadlines inner;
  int calls = 0;
  Deadline own(inner, [&](TimePoint) { ++calls; });
  own.set(at(30));
  Deadline row(outer, [&](TimePoint now) { inner.run(now); });
  inner.report_to(row);
  CHECK(outer.next() == at(30));
  own.set(at(20));
  CHECK(outer.next() == at(20));
  outer.run(at(20));
  CHECK(calls == 1);
  CHECK(outer.next() == kNever);
  own.set(at(40));
  inner.clear();
  CHECK(outer.next() == kNever);
}

TEST_CASE("a row without a call wakes whoever drives, once") {
  Deadlines list;
  Deadline wakes(list);
  wakes.set(at(10));
  CHECK(list.next() == at(10));
  list.run(at(10));
  CHECK(list.next() == kNever);
}

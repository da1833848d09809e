// The check of the trace format notices faults.
#include "tests/trace_form.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Json = nlohmann::json;

Json trace_of(const std::string& events) { return {{"traceEvents", Json::parse("[" + events + "]")}}; }

}  // namespace

TEST_CASE("a trace of every phase in its right form has no fault") {
  CHECK(test::form_faults(trace_of(R"(
{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}},
{"ph": "M", "name": "thread_sort_index", "pid": 0, "tid": 1, "args": {"sort_index": 1}},
{"ph": "X", "name": "outer", "pid": 0, "tid": 1, "ts": 0, "dur": 10.5},
{"ph": "X", "name": "inner", "pid": 0, "tid": 1, "ts": 0, "dur": 4},
{"ph": "X", "name": "beside", "pid": 0, "tid": 1, "ts": 10.5, "dur": 0},
{"ph": "X", "name": "other row", "pid": 0, "tid": 2, "ts": 5, "dur": 50},
{"ph": "B", "name": "begun", "pid": 1, "ts": 3}, {"ph": "E", "pid": 1, "ts": 3},
{"ph": "s", "name": "arrow", "cat": "c", "id": 7, "pid": 0, "tid": 1, "ts": 1},
{"ph": "f", "bp": "e", "name": "arrow", "cat": "c", "id": 7, "pid": 0, "tid": 2, "ts": 6},
{"ph": "C", "name": "count", "pid": 0, "ts": 2, "args": {"value": 3}},
{"ph": "i", "s": "t", "name": "moment", "pid": 0, "tid": 1, "ts": 2})")) == std::vector<std::string>());
}

TEST_CASE("what breaks the format is told, with the event") {
  const auto [event, what] = GENERATE(table<std::string, std::string>(
      {{R"(17)", "an event has no phase"},
       {R"({"name": "a", "pid": 0})", "an event has no phase"},
       {R"({"ph": "Q", "name": "a", "pid": 0, "ts": 0})", "phase Q"},
       {R"({"ph": "X", "pid": 0, "ts": 0, "dur": 0})", "an event has no name"},
       {R"({"ph": "X", "name": 3, "pid": 0, "ts": 0, "dur": 0})", "an event has no name"},
       {R"({"ph": "X", "name": "a", "pid": "0", "ts": 0, "dur": 0})", "a pid is no whole number"},
       {R"({"ph": "X", "name": "a", "pid": 0, "tid": 1.5, "ts": 0, "dur": 0})", "a tid is no whole number"},
       {R"({"ph": "X", "name": "a", "pid": 0, "ts": 0, "dur": 0, "args": []})", "arguments are no object"},
       {R"({"ph": "X", "name": "a", "pid": 0, "dur": 0})", "ts is no time"},
       {R"({"ph": "X", "name": "a", "pid": 0, "ts": -1, "dur": 0})", "ts is no time"},
       {R"({"ph": "X", "name": "a", "pid": 0, "ts": "1", "dur": 0})", "ts is no time"},
       {R"({"ph": "X", "name": "a", "pid": 0, "ts": 0})", "dur is no duration"},
       {R"({"ph": "X", "name": "a", "pid": 0, "ts": 0, "dur": -1})", "dur is no duration"},
       {R"({"ph": "B", "name": "a", "pid": 0, "ts": 0})", "a beginning has no end"},
       {R"({"ph": "E", "pid": 0, "ts": 0})", "an end has no beginning"},
       {R"({"ph": "B", "name": "a", "pid": 0, "ts": 5}, {"ph": "E", "pid": 0, "ts": 4})",
        "a row goes back in time"},
       {R"({"ph": "X", "name": "a", "pid": 0, "ts": 0, "dur": 5}, )"
        R"({"ph": "X", "name": "b", "pid": 0, "ts": 4, "dur": 5})",
        "one from 4000 to 9000 ns crosses the end of another at 5000"},
       {R"({"ph": "X", "name": "a", "pid": 0, "ts": 1.001, "dur": 2.002}, )"
        R"({"ph": "X", "name": "b", "pid": 0, "ts": 2.003, "dur": 1})",
        "one from 2003 to 3003 ns crosses the end of another at 3001"},
       {R"({"ph": "X", "name": "a", "pid": 0, "tid": 0, "ts": 0, "dur": 9}, )"
        R"({"ph": "s", "name": "a", "cat": "c", "id": 1, "pid": 0, "tid": 0, "ts": 0})",
        "an arrow has not one beginning and one end"},
       {R"({"ph": "X", "name": "a", "pid": 0, "tid": 0, "ts": 0, "dur": 9}, )"
        R"({"ph": "s", "name": "a", "cat": "c", "id": 1, "pid": 0, "tid": 0, "ts": 9}, )"
        R"({"ph": "f", "name": "a", "cat": "c", "id": 1, "pid": 0, "tid": 0, "ts": 8})",
        "an arrow leads back in time"},
       {R"({"ph": "s", "name": "a", "cat": "c", "id": 1, "pid": 0, "tid": 0, "ts": 1}, )"
        R"({"ph": "X", "name": "a", "pid": 0, "tid": 0, "ts": 1, "dur": 9}, )"
        R"({"ph": "f", "name": "a", "cat": "c", "id": 1, "pid": 0, "tid": 0, "ts": 8})",
        "an arrow's end at 1000 ns lies in no slice"},
       {R"({"ph": "X", "name": "a", "pid": 0, "tid": 0, "ts": 1, "dur": 9}, )"
        R"({"ph": "s", "name": "a", "cat": "c", "id": 1, "pid": 0, "tid": 0, "ts": 1}, )"
        R"({"ph": "f", "name": "a", "cat": "c", "id": 1, "pid": 0, "tid": 1, "ts": 8})",
        "an arrow's end at 8000 ns lies in no slice"},
       {R"({"ph": "B", "name": "a", "pid": 0, "ts": 0}, )"
        R"({"ph": "X", "name": "b", "pid": 0, "ts": 4, "dur": 5}, {"ph": "E", "pid": 0, "ts": 5})",
        "one from 4000 to 9000 ns crosses the end of another at 5000"},
       {R"({"ph": "f", "name": "a", "cat": "c", "pid": 0, "tid": 0, "ts": 0})", "an arrow has no id"},
       {R"({"ph": "f", "name": "a", "id": 1, "pid": 0, "tid": 0, "ts": 0})", "an arrow has no category"},
       {R"({"ph": "f", "name": "a", "id": 1, "cat": "c", "pid": 0, "ts": 0})", "an arrow has no row"},
       {R"({"ph": "C", "name": "a", "pid": 0, "ts": 0, "args": {"value": "3"}})",
        "a counter's value is no number"},
       {R"({"ph": "C", "name": "a", "pid": 0, "ts": 0})", "a counter has no value"},
       {R"({"ph": "i", "s": "x", "name": "a", "pid": 0, "ts": 0})", "a moment's scope is none of g, p and t"},
       {R"({"ph": "M", "name": "process_colour", "pid": 0, "args": {}})", "metadata that no viewer knows"},
       {R"({"ph": "M", "name": "process_name", "pid": 0})", "metadata without its argument"},
       {R"({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": 3}})",
        "metadata of the wrong type"},
       {R"({"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "a"}}, )"
        R"({"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "b"}})",
        "a row has two names"},
       {R"({"ph": "M", "name": "thread_name", "pid": 0, "args": {"name": "a"}})",
        "a row's metadata without its tid"}}));
  CAPTURE(event);
  const auto faults = test::form_faults(trace_of(event));
  REQUIRE(faults.size() == 1);
  CHECK(faults.front().substr(0, what.size() + 2) == what + ": ");
}

TEST_CASE("a slice that crosses the end of another in its row is written, and not imported") {
  test::TraceForm form;
  form.check(Json::parse(R"([
{"ph": "X", "name": "a", "pid": 0, "tid": 1, "ts": 0, "dur": 5},
{"ph": "X", "name": "crosses", "pid": 0, "tid": 1, "ts": 4, "dur": 5},
{"ph": "X", "name": "on a row of its own", "pid": 0, "tid": 2, "ts": 4, "dur": 5},
{"ph": "B", "name": "begun", "pid": 1, "ts": 3}, {"ph": "E", "pid": 1, "ts": 3}])"));
  CHECK(form.written() == 4);
  CHECK(form.imported() == 3);
}

TEST_CASE("what is no trace at all is a fault") {
  CHECK(test::form_faults(Json::object()).size() == 1);
  CHECK(test::form_faults(Json(3)).size() == 1);
}

}  // namespace dabke::test

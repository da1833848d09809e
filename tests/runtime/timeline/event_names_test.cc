// The tables of docs/reference have every event and argument of both traces, and the writers write only
// those.
#include "runtime/timeline/event_names.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "runtime/timeline/trace_writer.h"
#include "tests/facts.h"
#include "tests/runtime/timeline/job.h"
#include "tests/trace_form.h"

namespace dabke::test {
namespace {

using Names = std::set<std::string>;
using test::Json;
using What = timeline::Record::What;

/// The names of events and the keys of arguments, in a trace or on a page.
struct Told {
  Names events, arguments;
};

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream in(row.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const std::size_t begin = cell.find_first_not_of(' ');
    cells.push_back(begin == std::string::npos ? ""
                                               : cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
  }
  return cells;
}

/// The texts between backticks.
Names quoted_in(const std::string& cell) {
  Names names;
  for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
    const std::size_t end = cell.find('`', at + 1);
    if (end == std::string::npos) break;
    names.insert(cell.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

/// Reads the tables of a page in docs/reference that have a column `event`, `events` or `argument`.
Told tables_of(const std::string& page) {
  std::istringstream lines(test::read_file(SOURCE_ROOT "/docs/reference/" + page));
  Told told;
  std::size_t column = 0;
  Names* names = nullptr;
  bool is_in_table = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('|')) {
      is_in_table = false;
      continue;
    }
    const auto cells = cells_of(line);
    if (!is_in_table) {
      is_in_table = true;
      names = nullptr;
      for (column = 0; column < cells.size() && names == nullptr; ++column) {
        if (cells[column].starts_with("event")) names = &told.events;
        if (cells[column] == "argument") names = &told.arguments;
      }
      --column;
    } else if (names != nullptr && column < cells.size()) {
      names->merge(quoted_in(cells[column]));
    }
  }
  return told;
}

std::string negotiation_of(CollectiveKind kind) {
  return fmt::format("{}{}", timeline::kNegotiatePrefix, timeline_name_of(kind));
}

std::vector<CollectiveKind> all_kinds() {
  std::vector<CollectiveKind> kinds;
  for (int i = 0; i < kCollectiveCount; ++i) kinds.push_back(static_cast<CollectiveKind>(i));
  return kinds;
}

/// The events of collectives in this trace, for those that move data or for all.
Names collectives_of(timeline::TraceShape shape) {
  Names names;
  for (const CollectiveKind kind : all_kinds()) {
    if (moves_data(kind) || shape == timeline::kAllRanks) names.insert(std::string(timeline_name_of(kind)));
    if (moves_data(kind) || shape == timeline::kHorovod) names.insert(negotiation_of(kind));
  }
  return names;
}

Names events_of(timeline::TraceShape shape) {
  Names names = collectives_of(shape);
  for (const timeline::Event event : timeline::kEvents) {
    if (timeline::has(shape, event)) names.emplace(timeline::name_of(event));
  }
  return names;
}

Names arguments_of(timeline::TraceShape shape) {
  Names names;
  for (const timeline::Argument argument : timeline::kArguments) {
    if (timeline::has(shape, argument)) names.emplace(timeline::name_of(argument));
  }
  return names;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// True for a name that depends on the job: the number of a step or rank, a change of the ranks, or a
/// backend's name for its work.
bool is_of_the_job(const std::string& name) {
  if (name.starts_with(timeline::kChangePrefix)) return true;
  if (name.starts_with(timeline::kStepPrefix) && is_number(name.substr(timeline::kStepPrefix.size())))
    return true;
  return is_number(name) || std::ranges::any_of(all_kinds(), [&](CollectiveKind kind) {
           return moves_data(kind) && name.ends_with(fmt::format("_{}", activity_name_of(kind))) &&
                  !name.starts_with(timeline::kNegotiatePrefix);
         });
}

Names without_those_of_the_job(Names names) {
  std::erase_if(names, is_of_the_job);
  return names;
}

Told written_in(const Json& events) {
  Told told;
  for (const Json& event : events) {
    if (event.contains("name")) told.events.insert(event["name"].get<std::string>());
    if (!event.contains("args")) continue;
    for (const auto& [key, value] : event["args"].items()) told.arguments.insert(key);
  }
  told.events = without_those_of_the_job(std::move(told.events));
  return told;
}

/// Writes every kind of record, for each collective. The file of the second rank has no end.
void write_everything(const std::string& base) {
  for (const Rank rank : {0, 1}) {
    test::Writer writer(base, rank, 2);
    timeline::Timeline& timeline = writer.timeline();
    std::uint64_t order = 1;
    std::int64_t at = 0;
    for (const CollectiveKind kind : all_kinds()) {
      const std::string name(name_of(kind));
      at += 100;
      writer.put(at + 10 * rank,
                 {.bytes = 400, .name = timeline.tensor(name), .what = What::submit, .kind = kind});
      if (!moves_data(kind)) continue;
      timeline::Record about{.order = order, .batch = order, .bytes = 400, .name = timeline.tensor(name)};
      about.kind = kind;
      about.what = What::order;
      writer.put(at + 30, about);
      writer.step(at + 30, at + 40, order, What::queue);
      writer.step(at + 40, at + 42, order, What::wait_for_data);
      writer.step(at + 42, at + 45, order, What::allocate);
      writer.step(at + 45, at + 50, order, What::pack);
      writer.step(at + 50, at + 60, order, What::run);
      writer.step(at + 60, at + 65, order, What::unpack);
      about.time_ns = test::kBegin + (at + 70) * 1000;
      if (kind != CollectiveKind::reducescatter) timeline.done(about, Shape{100});
      ++order;
    }
    writer.submit(at + 200, "refused");
    timeline::Record refused{.name = timeline.tensor("refused")};
    refused.time_ns = test::kBegin + (at + 210) * 1000;
    timeline.error(refused, {Code::mismatch, "Mismatched shapes"});
    timeline.begin_wait();
    timeline.end_wait();
    for (const std::uint64_t step : {1U, 2U})
      writer.put(at + 300 + static_cast<std::int64_t>(step), {.bytes = step, .what = What::step});
    writer.put(at + 310, {.what = What::cycle});
    writer.put(at + 320, {.bytes = 3, .what = What::lost});
  }
  std::filesystem::resize_file(base + ".rank1", std::filesystem::file_size(base + ".rank1") - 8);
}

/// Writes two epochs of an elastic job.
void write_epochs(const std::string& base) {
  for (const std::uint64_t epoch : {1, 2}) {
    const auto begin = static_cast<std::int64_t>(epoch) * 1000;
    test::Writer writer(base, 0, epoch, {.members = {{epoch == 1 ? -1 : 0, "here"}}});
    writer.submit(begin, "a");
    writer.run(begin + 10, begin + 50, 1, {"a"});
    writer.leave(begin + 100);
  }
}

Json horovod_trace(const std::string& path) {
  timeline::NameTable names;
  timeline::LastNames last{};
  timeline::TraceWriter writer(timeline::TraceFile::open(path).take(), names, 0, 0);
  std::int64_t at = 0;
  std::uint64_t order = 0;
  const auto write = [&](timeline::Record record) {
    record.time_ns = at += 1000;
    writer.write(record);
  };
  for (const CollectiveKind kind : all_kinds()) {
    timeline::Record about{.name = names.number_of(timeline::NameKind::tensor, name_of(kind), last),
                           .kind = kind};
    about.what = What::ready;
    about.number = timeline::Record::kNobody;
    about.flags = timeline::Record::kFirst;
    write(about);
    about.flags = timeline::Record::kLast;
    about.number = 1;
    write(about);
    if (!moves_data(kind)) continue;
    about.order = about.batch = ++order;
    about.number = about.flags = 0;
    about.what = What::order;
    write(about);
    for (const What what :
         {What::queue, What::wait_for_data, What::allocate, What::pack, What::run, What::unpack}) {
      timeline::Record part{.order = order, .batch = order, .what = what, .kind = kind};
      write(part);
      part.flags = timeline::Record::kEnd;
      write(part);
    }
    const bool fails = kind != CollectiveKind::allreduce;
    about.what = fails ? What::error : What::done;
    about.number = fails ? names.number_of(timeline::NameKind::error, "lost", last)
                         : names.number_of(Shape{100}, about.name);
    if (kind != CollectiveKind::broadcast) write(about);
  }
  write({.bytes = 1, .what = What::step});
  write({.what = What::cycle});
  writer.mark_lost(at, 3);
  writer.finish(at, {9, 3});
  if (const Status closed = writer.close(); !closed.is_ok()) throw std::runtime_error(closed.message());
  return test::read_trace(path);
}

}  // namespace

TEST_CASE("docs/reference has every event and argument of the trace of all ranks, and no other") {
  const Told told = tables_of("timeline-trace.md");
  CHECK(without_those_of_the_job(told.events) == events_of(timeline::kAllRanks));
  CHECK(told.arguments == arguments_of(timeline::kAllRanks));
}

TEST_CASE("docs/reference has every event and argument of Horovod's shape, and no other") {
  const Told told = tables_of("timeline-horovod.md");
  CHECK(without_those_of_the_job(told.events) == events_of(timeline::kHorovod));
  CHECK(told.arguments == arguments_of(timeline::kHorovod));
}

TEST_CASE("the trace of all ranks is written with those events and arguments, and with no other") {
  const test::TemporaryDirectory place;
  write_everything(place / "trace.json");
  const Json trace = test::merged(place / "trace.json", place / "trace.json");
  CHECK(test::form_faults(trace) == std::vector<std::string>());
  Told written = written_in(trace["traceEvents"]);
  write_epochs(place / "epochs.json");
  const Json epochs = test::merged(place / "epochs.json", place / "epochs.json");
  CHECK(test::form_faults(epochs) == std::vector<std::string>());
  written.arguments.merge(written_in(epochs["traceEvents"]).arguments);
  CHECK(written.events == events_of(timeline::kAllRanks));
  CHECK(written.arguments == arguments_of(timeline::kAllRanks));
}

TEST_CASE("Horovod's shape is written with those events and arguments, and with no other") {
  const test::TemporaryDirectory place;
  const Json trace = horovod_trace(place / "trace.json");
  CHECK(test::form_faults(trace) == std::vector<std::string>());
  const Told written = written_in(trace);
  CHECK(written.events == events_of(timeline::kHorovod));
  CHECK(written.arguments == arguments_of(timeline::kHorovod));
}

}  // namespace dabke::test

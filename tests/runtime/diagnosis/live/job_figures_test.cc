#include "runtime/diagnosis/live/job_figures.h"

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Catch::Contains;
using State = RankFigures::State;

diagnosis::JobFigures job_at(double time_s, std::uint64_t bytes, double caused_s) {
  diagnosis::JobFigures job{.size = 3, .time_s = time_s};
  job.ranks = {{.figures = {.rank = 0, .bytes = bytes, .state = State::idle}, .host = "node1"},
               {.figures = {.rank = 1,
                            .steps = 8,
                            .step = 7,
                            .step_us = 12'345,
                            .bytes = bytes,
                            .pending = 4,
                            .state = State::waits,
                            .state_ms = 2500,
                            .what = "allreduce 'x'"},
                .host = "node1"},
               {.figures = {.rank = 2, .bytes = bytes, .state = State::computes},
                .host = "node2",
                .caused_s = caused_s,
                .age_s = 12}};
  return job;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  for (const char each : line + " ") {
    if (each != ' ') {
      word += each;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  return words;
}

}  // namespace

TEST_CASE("figures come out of their JSON as they went in") {
  const diagnosis::JobFigures job = job_at(5.25, 1'000'000, 0.5);
  const auto back = diagnosis::parse_figures(diagnosis::to_json(job));
  REQUIRE(back.is_ok());
  CHECK(back->size == 3);
  CHECK(back->time_s == 5.25);
  REQUIRE(back->ranks.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(back->ranks[i].figures == job.ranks[i].figures);
    CHECK(back->ranks[i].host == job.ranks[i].host);
    CHECK(back->ranks[i].caused_s == job.ranks[i].caused_s);
    CHECK(back->ranks[i].age_s == job.ranks[i].age_s);
  }
}

TEST_CASE("what is no figures is refused with what is wrong") {
  const std::string good = diagnosis::to_json(job_at(1, 1, 0));
  for (std::size_t length = 0; length < good.size(); length += 7)
    CHECK_FALSE(diagnosis::parse_figures(good.substr(0, length)).is_ok());
  CHECK_THAT(diagnosis::parse_figures("{}").status().message(), Contains("not valid figures"));
  CHECK_THAT(diagnosis::parse_figures("[]").status().message(), Contains("not valid figures"));
  std::string other = good;
  other.replace(other.find("\"version\":1"), 11, "\"version\":2");
  CHECK_THAT(diagnosis::parse_figures(other).status().message(), Contains("from another version"));
  other = good;
  other.replace(other.find("\"idle\""), 6, "\"busy\"");
  CHECK_THAT(diagnosis::parse_figures(other).status().message(), Contains("unknown state"));
}

TEST_CASE("the table has a line for each rank, and rates of the time between the last two figures") {
  diagnosis::FiguresTable table;
  CHECK(table.lines(100, 50).empty());
  table.take(job_at(10, 0, 1));
  auto lines = table.lines(200, 50);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "3 of 3 ranks report");
  CHECK(words_of(lines[2]) == std::vector<std::string>{"0", "node1", "-", "-", "-", "-", "0", "idle"});
  table.take(job_at(12, 8'000'000, 1.5));
  lines = table.lines(200, 50);
  CHECK(lines[0] == "3 of 3 ranks report, 4.0 MB/s each on average");
  CHECK(words_of(lines[1]) == words_of("rank host step step time waits caused MB/s queue state"));
  CHECK(words_of(lines[3]) == words_of("1 node1 7 12.3 ms 0 ms/s 4.0 4 waits for allreduce 'x', 2.5 s"));
  CHECK(words_of(lines[4]) == words_of("2 node2 - - 250 ms/s 4.0 0 has not answered for 12 s"));
}

TEST_CASE("a job that has started again is no continuation of the one before") {
  diagnosis::FiguresTable table;
  table.take(job_at(100, 9'000'000'000, 50));
  table.take(job_at(1, 0, 0));
  CHECK(words_of(table.lines(200, 50)[2])[4] == "-");
}

TEST_CASE(
    "lines are no wider than they may be, and of many ranks those that others wait for most are shown") {
  diagnosis::JobFigures job{.size = 100, .time_s = 1};
  for (Rank rank = 0; rank < 100; ++rank)
    job.ranks.push_back(
        {.figures = {.rank = rank, .what = std::string(300, 'x')}, .host = "h\xc3\xa4uschen"});
  diagnosis::FiguresTable table;
  table.take(job);
  job.time_s = 2;
  job.ranks[77].caused_s = 0.5;
  job.ranks[33].caused_s = 0.25;
  table.take(job);
  for (const std::size_t columns : {1U, 10U, 11U, 12U, 80U}) {
    const auto lines = table.lines(columns, 12);
    CHECK(lines.size() <= 12);
    for (const std::string& line : lines) CHECK(line.size() <= columns);
  }
  const auto lines = table.lines(120, 12);
  CHECK_THAT(lines[0], Contains("below are the 9 that others wait for most"));
  CHECK(words_of(lines[2])[0] == "77");
  CHECK(words_of(lines[3])[0] == "33");
}

TEST_CASE("names of tensors and hosts do nothing to a terminal") {
  diagnosis::JobFigures job = job_at(1, 0, 0);
  job.ranks[1].figures.what = "allreduce '\x1b]0;title\x07\n\x7f'";
  job.ranks[0].host = "\x1b[2J";
  const auto through = diagnosis::parse_figures(diagnosis::to_json(job));
  REQUIRE(through.is_ok());
  diagnosis::FiguresTable table;
  table.take(*through);
  for (const std::string& line : table.lines(200, 50))
    CHECK(std::none_of(line.begin(), line.end(),
                       [](char each) { return (each >= 0 && each < ' ') || each == 0x7f; }));
}

}  // namespace dabke::test

#include "launcher/output/repeated_texts.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

const std::string kText =
    "Mismatched shape for 'layer1.grad' in process set 0: rank 0 on vm submitted allreduce (average) of "
    "float32 "
    "[3]; rank 1 on vm submitted allreduce (average) of float32 [4]. Every rank of the process set must pass "
    "the "
    "same shape.";
const TimePoint kNow = Clock::now();

std::string log_of(int rank, const std::string& text) {
  return "[2026-03-04 05:06:07.890 dabke rank " + std::to_string(rank) + " error] " + text + "\n";
}

}  // namespace

TEST_CASE("what another rank's log has told is referred to, with its beginning and what it has not told") {
  RepeatedTexts texts;
  const std::string first =
      log_of(0, "rank 0 on vm aborted the job: dabke.errors.MismatchError: " + kText + " (a.py:6)");
  CHECK(texts.shown(first, 0, kNow) == first);
  CHECK(texts.shown("dabke.errors.MismatchError: " + kText + "\n", 0, kNow) ==
        "dabke.errors.MismatchError: Mismatched shape for 'layer1.grad'... (as rank 0 reported)\n");
  CHECK(texts.shown(
            log_of(1, "rank 1 on vm aborted the job: dabke.errors.MismatchError: " + kText + " (b.py:60)"), 1,
            kNow) == log_of(1,
                            "rank 1 on vm aborted the job: dabke.errors.MismatchError: Mismatched... (as "
                            "rank 0 reported) (b.py:60)"));
}

TEST_CASE("what the program itself writes is shown as it is, and so is what is short, new or long ago") {
  RepeatedTexts texts;
  for (const int rank : {0, 1}) {
    for (const std::string& line :
         {"ValueError: " + kText + "\n", "[my log] " + kText + "\n", log_of(0, "short"), std::string()})
      CHECK(texts.shown(line, rank, kNow) == line);
  }
  CHECK(texts.shown(log_of(0, kText), 0, kNow) == log_of(0, kText));
  const std::string other(200, 'x');
  CHECK(texts.shown(log_of(1, other), 1, kNow) == log_of(1, other));
  const TimePoint later = kNow + std::chrono::minutes(1);
  CHECK(texts.shown(log_of(0, kText), 0, later) == log_of(0, kText));
}

TEST_CASE("a text of which only a small part has been told is shown in full") {
  RepeatedTexts texts;
  (void)texts.shown(log_of(0, kText), 0, kNow);
  const std::string longer = kText + std::string(300, 'y');
  CHECK(texts.shown(log_of(1, longer), 1, kNow) == log_of(1, longer));
}

}  // namespace dabke::test

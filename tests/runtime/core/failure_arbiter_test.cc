#include "runtime/core/failure_arbiter.h"

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

const TimePoint kNow = TimePoint() + std::chrono::hours(1);

std::unique_ptr<NegotiatedCall> call_of(const std::string& name) {
  auto operation = OperationRef::adopt(new Operation);
  operation->request->name = name;
  return std::make_unique<NegotiatedCall>(std::move(operation));
}

std::string name_of_first(const core::FailureArbiter::Verdict& verdict) {
  return verdict.calls[verdict.first].call->first().request->name;
}

}  // namespace

TEST_CASE("a failed run waits a second for the job's cause, and is the cause when none comes") {
  core::FailureArbiter failures;
  REQUIRE(failures.note(call_of("x"), {Code::transport, "connection reset"}));
  CHECK(failures.has_news());
  CHECK_FALSE(failures.judge(kNow, nullptr));
  CHECK_FALSE(failures.has_news());
  CHECK(failures.has_failures());
  REQUIRE(failures.deadline() == kNow + std::chrono::seconds(1));
  CHECK_FALSE(failures.judge(kNow + std::chrono::milliseconds(999), nullptr));

  const auto verdict = failures.judge(failures.deadline(), nullptr);
  REQUIRE(verdict);
  CHECK(verdict->is_new);
  CHECK(verdict->cause.message() == "connection reset");
  CHECK_FALSE(failures.has_failures());
  CHECK(failures.deadline() == kNever);
}

TEST_CASE("what the job has ended with is the cause of all that fails") {
  core::FailureArbiter failures;
  const Status over(Code::peer_lost, "rank 2 on b is lost");
  REQUIRE(failures.note(call_of("x"), {Code::transport, "connection reset"}));
  REQUIRE(failures.note(call_of("y"), {Code::timeout, "late"}));
  const auto verdict = failures.judge(kNow, &over);
  REQUIRE(verdict);
  CHECK_FALSE(verdict->is_new);
  CHECK(verdict->cause.message() == over.message());
  CHECK(verdict->calls.size() == 2);
}

TEST_CASE("a run that has found out by itself what is wrong waits for nobody, and goes before the others") {
  const Code known = GENERATE(Code::peer_lost, Code::timeout, Code::out_of_memory);
  core::FailureArbiter failures;
  REQUIRE(failures.note(call_of("x"), {Code::transport, "connection reset"}));
  REQUIRE(failures.note(call_of("y"), {known, "this is why"}));
  const auto verdict = failures.judge(kNow, nullptr);
  REQUIRE(verdict);
  CHECK(verdict->is_new);
  CHECK(name_of_first(*verdict) == "y");
  CHECK(verdict->cause.code() == known);
}

TEST_CASE("a run that a wait's check has stopped aborts the job at once") {
  core::FailureArbiter failures;
  REQUIRE(failures.note(call_of("x"), {Code::interrupted, "the wait for 'x' was stopped"}));
  const auto verdict = failures.judge(kNow, nullptr);
  REQUIRE(verdict);
  CHECK(verdict->is_new);
  CHECK(verdict->cause.code() == Code::aborted);
  CHECK(verdict->cause.message() == "the wait for 'x' was stopped");
}

TEST_CASE("a job that has ended well ends nothing badly: what fails then is a cause of its own") {
  core::FailureArbiter failures;
  const Status well;
  REQUIRE(failures.note(call_of("x"), {Code::peer_lost, "rank 1 is lost"}));
  const auto verdict = failures.judge(kNow, &well);
  REQUIRE(verdict);
  CHECK(verdict->is_new);
}

TEST_CASE("the first cause of a step that broke stays") {
  core::FailureArbiter failures;
  failures.break_off({Code::out_of_memory, "first"});
  failures.break_off({Code::internal, "second"});
  CHECK(failures.is_broken());
  CHECK(failures.take_break_cause().message() == "first");
}

}  // namespace dabke::test

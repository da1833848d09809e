#include "runtime/base/status.h"

#include <cerrno>
#include <memory>
#include <set>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

Status fail_if(bool wanted) { return wanted ? Status(Code::timeout, "too late") : Status(); }

Status pass_up(bool wanted, bool& went_on) {
  DABKE_RETURN_IF_ERROR(fail_if(wanted));
  went_on = true;
  return {};
}

Result<int> half_of(int number) {
  if (number % 2 != 0) return Status(Code::invalid_argument, "odd");
  return number / 2;
}

Result<int> quarter_of(int number) {
  DABKE_ASSIGN_OR_RETURN(const int half, half_of(number));
  DABKE_ASSIGN_OR_RETURN(const int quarter, half_of(half));
  return quarter;
}

constexpr Code kCodes[] = {
#define X(id, text) Code::id,
    DABKE_CODES(X)
#undef X
};

}  // namespace

TEST_CASE("a default status is ok and has no message") {
  const Status status;
  CHECK(status.is_ok());
  CHECK(status.code() == Code::ok);
  CHECK(status.message().empty());
}

TEST_CASE("every code has a name and a text of its own, and codes count from 0") {
  std::set<std::string_view> names, texts;
  int next = 0;
  for (const Code code : kCodes) {
    CHECK(static_cast<int>(code) == next++);
    CHECK(names.insert(name_of(code)).second);
    CHECK(texts.insert(text_of(code)).second);
  }
  CHECK(name_of(Code::peer_lost) == "peer_lost");
}

TEST_CASE("a number that is no code is called unknown") {
  CHECK(name_of(static_cast<Code>(999)) == "unknown");
  CHECK(text_of(static_cast<Code>(-1)) == "unknown error code");
}

TEST_CASE("a system error says what was tried and why it failed") {
  const Status status = system_error("open /nowhere", ENOENT);
  CHECK(status.code() == Code::transport);
  CHECK(status.message() == "open /nowhere: No such file or directory");
}

TEST_CASE("DABKE_RETURN_IF_ERROR returns the error from where it stands and lets ok pass") {
  bool went_on = false;
  const Status failed = pass_up(true, went_on);
  CHECK(failed.code() == Code::timeout);
  CHECK(failed.message() == "too late");
  CHECK_FALSE(went_on);
  CHECK(pass_up(false, went_on).is_ok());
  CHECK(went_on);
}

TEST_CASE("DABKE_ASSIGN_OR_RETURN hands on the value or the error, also twice in one function") {
  const auto good = quarter_of(12);
  REQUIRE(good);
  CHECK(*good == 3);
  CHECK(good.status().is_ok());
  for (const int bad : {3, 6}) {
    const auto result = quarter_of(bad);
    REQUIRE_FALSE(result);
    CHECK(result.status().code() == Code::invalid_argument);
    CHECK(result.status().message() == "odd");
  }
}

TEST_CASE("a result can hold what can only be moved") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  REQUIRE(result);
  CHECK(**result == 7);
  const std::unique_ptr<int> taken = result.take();
  CHECK(*taken == 7);
}

}  // namespace dabke::test

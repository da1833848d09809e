#include "runtime/store/http_answer.h"

#include <catch2/catch.hpp>

namespace dabke::test {

using Progress = store::HttpAnswer::Progress;

TEST_CASE("an answer of the store is the same wherever its bytes are cut in two") {
  const std::string_view bytes =
      "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nX-Dabke-Proof: 0aff\r\n\r\nnone\n and what comes after "
      "it";
  const std::size_t end = bytes.find(" and what");
  for (std::size_t cut = 0; cut < end; ++cut) {
    CAPTURE(cut);
    store::HttpAnswer answer;
    const auto first = answer.append(bytes.substr(0, cut));
    REQUIRE(first.is_ok());
    REQUIRE(*first == Progress::more);
    const auto second = answer.append(bytes.substr(cut));
    REQUIRE(second.is_ok());
    REQUIRE(*second == Progress::complete);
    REQUIRE(answer.status() == 404);
    REQUIRE(answer.proof() == "0aff");
    REQUIRE(answer.body() == "none\n");
  }
}

TEST_CASE("the longest head of an answer is taken wherever its bytes are cut in two") {
  std::string bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ";
  bytes.resize(16 << 10, 'x');
  bytes += "\r\n\r\nok";
  for (std::size_t cut = bytes.size() - 8; cut < bytes.size(); ++cut) {
    CAPTURE(cut);
    store::HttpAnswer answer;
    REQUIRE(answer.append(std::string_view(bytes).substr(0, cut)).is_ok());
    const auto second = answer.append(std::string_view(bytes).substr(cut));
    REQUIRE(second.is_ok());
    REQUIRE(*second == Progress::complete);
    REQUIRE(answer.body() == "ok");
  }
}

TEST_CASE("an answer has begun when its first byte has come, and still has when its head is complete") {
  store::HttpAnswer answer;
  CHECK_FALSE(answer.has_begun());
  REQUIRE(answer.append("H").is_ok());
  CHECK(answer.has_begun());
  REQUIRE(answer.append("TTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").is_ok());
  CHECK(answer.has_begun());
}

TEST_CASE("what is no answer of a store is refused before all of it has come") {
  store::HttpAnswer other, endless, large;
  CHECK_FALSE(other.append("SSH-2.0-OpenSSH_9.2\r\n\r\n").is_ok());
  CHECK_FALSE(endless.append(std::string(20'000, 'x')).is_ok());
  CHECK_FALSE(large.append("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n").is_ok());
}

}  // namespace dabke::test

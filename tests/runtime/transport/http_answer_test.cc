#include "runtime/transport/http_answer.h"

#include <catch2/catch.hpp>

namespace dabke {

using Progress = HttpAnswer::Progress;

TEST_CASE("an answer of the store is the same wherever its bytes are cut in two") {
  const std::string_view bytes =
      "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nX-Dabke-Proof: 0aff\r\n\r\nnone\n and what comes after "
      "it";
  const std::size_t end = bytes.find(" and what");
  for (std::size_t cut = 0; cut < end; ++cut) {
    CAPTURE(cut);
    HttpAnswer answer;
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

TEST_CASE("what is no answer of a store is refused before all of it has come") {
  HttpAnswer other, endless, large;
  CHECK_FALSE(other.append("SSH-2.0-OpenSSH_9.2\r\n\r\n").is_ok());
  CHECK_FALSE(endless.append(std::string(20'000, 'x')).is_ok());
  CHECK_FALSE(large.append("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n").is_ok());
}

}  // namespace dabke

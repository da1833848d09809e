#include "runtime/base/hmac.h"

#include <cstring>
#include <vector>

#include <openssl/evp.h>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// HMAC pads keys with zeros to its block size. So a shorter key of the RFC
/// equals one of ours that ends in zeros.
JobKey padded(std::string_view key) {
  JobKey out{};
  std::memcpy(out.data(), key.data(), key.size());
  return out;
}

}  // namespace

TEST_CASE("hmac_sha256 gives the digests of RFC 4231") {
  CHECK(to_hex(*hmac_sha256(padded(std::string(20, '\x0b')), bytes_of("Hi There"))) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(to_hex(*hmac_sha256(padded("Jefe"), bytes_of("what do ya want for nothing?"))) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("an empty message has a digest too") {
  CHECK(to_hex(*hmac_sha256(JobKey{}, {})) ==
        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST_CASE("where OpenSSL gives no digest there is an error, and no digest that everybody has") {
  // The same as `default_properties = fips=yes` in openssl.cnf on a host without the FIPS provider.
  REQUIRE(EVP_set_default_properties(nullptr, "fips=yes") == 1);
  const auto digest = hmac_sha256(padded("k"), bytes_of("m"));
  REQUIRE(EVP_set_default_properties(nullptr, "") == 1);
  REQUIRE_FALSE(digest.is_ok());
  CHECK_THAT(digest.status().message(), Catch::Contains("HMAC-SHA256") && Catch::Contains("openssl.cnf"));
  CHECK(hmac_sha256(padded("k"), bytes_of("m")).is_ok());
}

TEST_CASE("digests are equal only in every byte") {
  const Digest digest = *hmac_sha256(padded("k"), bytes_of("m"));
  CHECK(digests_equal(digest, digest));
  for (std::size_t i = 0; i < digest.size(); ++i) {
    Digest other = digest;
    other[i] ^= std::byte{1};
    CHECK_FALSE(digests_equal(digest, other));
  }
}

TEST_CASE("random bytes fill all of the memory and differ each time") {
  std::vector<std::byte> first(1000), second(1000);
  REQUIRE(random_bytes(first).is_ok());
  REQUIRE(random_bytes(second).is_ok());
  CHECK(first != second);
  CHECK(std::vector(first.end() - 16, first.end()) != std::vector<std::byte>(16));
  CHECK(random_bytes({}).is_ok());
}

TEST_CASE("what to_hex writes, from_hex reads, in either case") {
  const std::array<std::byte, 4> bytes{std::byte{0x00}, std::byte{0x7f}, std::byte{0xAB}, std::byte{0xff}};
  CHECK(to_hex(bytes) == "007fabff");
  for (const char* text : {"007fabff", "007FABFF"}) {
    std::array<std::byte, 4> read{};
    REQUIRE(from_hex(text, read).is_ok());
    CHECK(read == bytes);
  }
}

TEST_CASE("from_hex refuses what is too short, too long, or not hexadecimal") {
  std::array<std::byte, 2> out{};
  for (const char* text : {"", "abc", "abcde", "abcdef", "ab g", "0x12", "-1-1", "12 4"}) {
    CAPTURE(text);
    const Status status = from_hex(text, out);
    CHECK(status.code() == Code::invalid_argument);
  }
}

}  // namespace dabke::test

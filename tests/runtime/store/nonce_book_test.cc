#include "runtime/store/nonce_book.h"

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("each nonce is taken once, in any order, and each client counts for itself") {
  store::NonceBook book;
  CHECK(book.take("a-1"));
  CHECK(book.take("a-3"));
  CHECK(book.take("a-2"));
  CHECK(book.take("b-1"));
  CHECK_FALSE(book.take("a-1"));
  CHECK_FALSE(book.take("a-2"));
  CHECK_FALSE(book.take("a-3"));
  CHECK_FALSE(book.take("b-1"));
  CHECK(book.take("a-4"));
}

TEST_CASE("what is no nonce is not taken") {
  store::NonceBook book;
  const auto text = GENERATE(as<std::string>(), "", "a", "-1", "a-", "a-0", "a-x", "a--1", "a-1 ",
                             "a-99999999999999999999");
  CHECK_FALSE(book.take(text));
}

TEST_CASE(
    "a gap that is never filled does not keep the book from forgetting, and never lets a nonce in twice") {
  store::NonceBook book;
  for (int i = 2; i < 20'000; ++i) {
    if (!book.take("a-" + std::to_string(i))) FAIL("a fresh nonce was refused");
  }
  for (int i = 2; i < 20'000; ++i) {
    if (book.take("a-" + std::to_string(i))) FAIL("a nonce was taken twice");
  }
  CHECK_FALSE(book.take("a-1"));  // too late
}

}  // namespace dabke::test

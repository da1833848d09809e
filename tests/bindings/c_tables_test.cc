// The public C header has the same numbers as the runtime's tables. The test reads the header as text, so it
// needs no list of its own.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "bindings/c/dlpack_dtype.h"
#include "dabke/dabke.h"
#include "runtime/base/kinds.h"
#include "runtime/base/status.h"
#include "tests/facts.h"

namespace dabke::test {
namespace {

/// The enumerators of an enum in dabke.h, with their numbers. Names are as in the tables: lower case, without
/// `prefix`.
std::vector<std::pair<std::string, int>> enumerators_of(const std::string& type, const std::string& prefix) {
  std::ifstream file(std::string(SOURCE_ROOT) + "/bindings/c/include/dabke/dabke.h");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = text.find("typedef enum " + type + " {"), end = text.find("} " + type + ";");
  if (begin == std::string::npos || end == std::string::npos) return {};
  const std::string body = text.substr(begin, end - begin);
  std::vector<std::pair<std::string, int>> found;
  const std::regex row(R"(DABKE_(\w+) = (\d+))");
  for (std::sregex_iterator each(body.begin(), body.end(), row), last; each != last; ++each) {
    std::string name = (*each)[1];
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
    found.emplace_back(name, std::stoi((*each)[2]));
  }
  return found;
}

/// Checks that the enumerators are exactly the rows of the table up to `last`, by name and number.
template <class Row>
void check_rows(const std::vector<std::pair<std::string, int>>& enumerators, Row last) {
  REQUIRE(enumerators.size() == static_cast<std::size_t>(last) + 1);
  for (int number = 0; const auto& [name, value] : enumerators) {
    CHECK(value == number);
    CHECK(name == name_of(static_cast<Row>(number)));
    ++number;
  }
}

}  // namespace

TEST_CASE("every status code of the C header has the value of its row") {
  int rows = 0;
#define X(...) ++rows;
  DABKE_CODES(X)
#undef X
  check_rows(enumerators_of("dabke_status", "error_"), static_cast<Code>(rows - 1));
  CHECK(static_cast<int>(DABKE_ERROR_INTERRUPTED) == static_cast<int>(Code::interrupted));
}

TEST_CASE("the reduce operations of the C header have the values of their rows") {
  check_rows(enumerators_of("dabke_reduce_op", ""), kLast<ReduceOp>);
  CHECK(static_cast<int>(DABKE_BITWISE_XOR) == static_cast<int>(ReduceOp::bitwise_xor));
}

TEST_CASE(
    "the compressions of the C header have the values of their rows, and the default one comes behind them") {
  auto enumerators = enumerators_of("dabke_compression", "compression_");
  REQUIRE_FALSE(enumerators.empty());
  CHECK(enumerators.back() == std::pair(std::string("default"), static_cast<int>(kLast<Compression>) + 1));
  enumerators.pop_back();
  check_rows(enumerators, kLast<Compression>);
}

TEST_CASE("the collectives of the C header have the values of their rows") {
  check_rows(enumerators_of("dabke_collective", ""), static_cast<CollectiveKind>(DABKE_BARRIER));
}

TEST_CASE("a dtype and its DLPack code lead to one another") {
  std::set<std::pair<int, int>> codes;
  for (const DType dtype : kDTypes) {
    const DLDataType code = dlpack_dtype(dtype);
    CHECK(dtype_from_dlpack(code) == dtype);
    CHECK(codes.insert({code.code, code.bits}).second);
    CHECK(size_of(dtype) * 8 == code.bits);
  }
}

TEST_CASE("the DLPack type codes of the dtype rows are the standard's") {
  const auto dtype_from = [](int code, int bits) {
    return dtype_from_dlpack({static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1});
  };
  CHECK(dtype_from(2, 32) == DType::f32);
  CHECK(dtype_from(4, 16) == DType::bf16);
  CHECK(dtype_from(6, 8) == DType::b8);
  CHECK(dtype_from(1, 64) == DType::u64);
  CHECK(dtype_from(0, 8) == DType::i8);
  CHECK(dtype_from(2, 16) == DType::f16);
}

TEST_CASE("a DLPack type that is not ours is nothing") {
  CHECK_FALSE(dtype_from_dlpack({kDLFloat, 128, 1}));
  CHECK_FALSE(dtype_from_dlpack({kDLComplex, 64, 1}));
  CHECK_FALSE(dtype_from_dlpack({kDLInt, 4, 1}));
  CHECK_FALSE(dtype_from_dlpack({kDLFloat, 32, 2}));
}

}  // namespace dabke::test

#include "benchmarks/perf/measure/sizes.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace dabke::perf {
namespace {

constexpr std::string_view kUnits = "KMGT";
constexpr std::int64_t kMost = std::int64_t{1} << 40;

}  // namespace

Result<std::int64_t> parse_size(std::string_view text, std::string_view option) {
  const auto refused = [&] {
    return Status(
        Code::invalid_argument,
        fmt::format("{} is '{}', but must be a number of bytes, 1 to 1T, such as 8, 64K, 256M or 1G", option,
                    text));
  };
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc()) return refused();
  std::string_view unit(end, static_cast<std::size_t>(last - end));
  double scale = 1;
  if (!unit.empty()) {
    const auto power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
    if (power != std::string_view::npos) {
      scale = std::ldexp(1.0, static_cast<int>(power + 1) * 10);
      unit.remove_prefix(1);
      if (!unit.empty() && unit.front() == 'i') unit.remove_prefix(1);
    }
    if (!unit.empty() && unit != "B" && unit != "b") return refused();
  }
  const double bytes = number * scale;
  if (!(bytes >= 1) || bytes > static_cast<double>(kMost) || bytes != std::floor(bytes)) return refused();
  return static_cast<std::int64_t>(bytes);
}

std::string size_text(std::int64_t bytes) {
  std::size_t unit = 0;
  std::int64_t number = bytes;
  for (; number != 0 && number % 1024 == 0 && unit < kUnits.size(); ++unit) number /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{} {}iB", number, kUnits[unit - 1]);
}

std::vector<std::int64_t> sizes_between(std::int64_t begin, std::int64_t end, std::int64_t factor) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = begin; size <= end; size *= factor) sizes.push_back(size);
  return sizes;
}

}  // namespace dabke::perf

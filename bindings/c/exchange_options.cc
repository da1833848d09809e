#include "bindings/c/exchange_options.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "bindings/c/state.h"
#include "runtime/bootstrap/place.h"

namespace dabke {
namespace {

Status invalid(std::string text) { return {Code::invalid_argument, "dabke_init: " + std::move(text)}; }

/// The caller's function. It counts its calls, so that an error names the call in which it failed.
bootstrap::ExchangeGroup::Allgather allgather_of(const dabke_init_options& options) {
  const auto calls = std::make_shared<int>(0);
  return [calls, exchange = options.exchange, context = options.exchange_context, rank = options.rank,
          size = options.size](std::span<const char> mine, std::span<char> all) -> Status {
    ++*calls;
    const InApplication inside("dabke_init's exchange");
    const int result = exchange(context, mine.data(), all.data(), mine.size());
    if (result == 0) return {};
    return {Code::transport,
            fmt::format("dabke_init: exchange, which the program provides, returned {} on process "
                        "{} of {}, in call {} of 2",
                        result, rank, size, *calls)};
  };
}

}  // namespace

Result<std::optional<bootstrap::ExchangeGroup>> exchange_group_of(const dabke_init_options& options) {
  if (options.exchange == nullptr) {
    const char* const given = options.size != 0                                      ? "size"
                              : options.rank != 0                                    ? "rank"
                              : options.ranks != nullptr || options.ranks_count != 0 ? "ranks"
                                                                                     : nullptr;
    if (given == nullptr) return std::optional<bootstrap::ExchangeGroup>();
    return invalid(
        fmt::format("{} is given but exchange is not, so the ranks cannot find each other; set exchange to "
                    "an allgather of the processes, or leave rank, size and ranks out",
                    given));
  }
  if (options.mpi_comm != nullptr)
    return invalid("exchange and mpi_comm are both given; pass only one of them");
  if (options.size < 1 || options.size > bootstrap::kMostProcesses) {
    return invalid(
        fmt::format("exchange is given but size is {}; set it to the number of processes that exchange "
                    "reaches, from 1 to {}",
                    options.size, bootstrap::kMostProcesses));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return invalid(
        fmt::format("rank is {}, but must be this process's number among those that exchange reaches, "
                    "from 0 to {}",
                    options.rank, options.size - 1));
  }
  bootstrap::ExchangeGroup group;
  group.number = static_cast<int>(options.rank);
  group.count = static_cast<int>(options.size);
  group.allgather = allgather_of(options);
  if (options.ranks == nullptr) {
    group.members.resize(static_cast<std::size_t>(group.count));
    std::iota(group.members.begin(), group.members.end(), 0);
  } else if (check_members(options).is_ok()) {
    group.members.assign(options.ranks, options.ranks + options.ranks_count);
  }
  return std::optional(std::move(group));
}

Status check_members(const dabke_init_options& options) {
  if (options.ranks == nullptr) {
    if (options.ranks_count == 0) return {};
    return invalid(fmt::format("ranks_count is {}, but ranks is NULL", options.ranks_count));
  }
  if (options.ranks_count == 0 || options.ranks_count > static_cast<std::size_t>(options.size)) {
    return invalid(
        fmt::format("ranks_count is {}; a job has from 1 to all {} of the processes that exchange reaches",
                    options.ranks_count, options.size));
  }
  std::vector<std::int32_t> sorted(options.ranks, options.ranks + options.ranks_count);
  std::ranges::sort(sorted);
  if (sorted.front() < 0 || sorted.back() >= options.size) {
    return invalid(fmt::format("ranks has {}, but the processes that exchange reaches go from 0 to {}",
                               sorted.front() < 0 ? sorted.front() : sorted.back(), options.size - 1));
  }
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    return invalid(fmt::format("ranks has {} twice", *twice));
  return {};
}

}  // namespace dabke

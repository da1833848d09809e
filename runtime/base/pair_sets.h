// The process sets of two ranks that nobody adds. Each pair of ranks has one, for messages from one to the
// other. Its number determines its ranks, so each rank makes the set when it first meets the number.
#pragma once

#include <array>
#include <vector>

#include "runtime/base/world.h"

namespace dabke {

/// Numbers of sets that users add are below it.
inline constexpr ProcessSetId kFirstPair = 1 << 28;
/// The pairs of more ranks would have numbers that are too large for a ProcessSetId.
inline constexpr int kMostRanksOfPairs = 1 << 15;

constexpr bool is_pair(ProcessSetId set) { return set >= kFirstPair; }

/// The set of two different ranks, in any order.
constexpr ProcessSetId pair_of(Rank a, Rank b) {
  const Rank low = a < b ? a : b, high = a < b ? b : a;
  return kFirstPair + high * (high - 1) / 2 + low;
}

/// The ranks of a pair, ascending.
constexpr std::array<Rank, 2> ranks_of_pair(ProcessSetId pair) {
  const int place = pair - kFirstPair;
  Rank high = 1;
  for (int step = kMostRanksOfPairs / 2; step > 0; step /= 2) {
    if ((high + step) * (high + step - 1) / 2 <= place) high += step;
  }
  return {place - high * (high - 1) / 2, high};
}

/// True if the number is that of a pair of ranks in a job of `size`.
constexpr bool is_pair_in(ProcessSetId set, int size) { return is_pair(set) && ranks_of_pair(set)[1] < size; }

inline std::vector<Rank> members_of_pair(ProcessSetId pair) {
  const auto ranks = ranks_of_pair(pair);
  return {ranks[0], ranks[1]};
}

}  // namespace dabke

// The tokens of submitted operations that have not completed. Each completes once, on its own rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/call/request.h"
#include "runtime/negotiation/tables/token.h"

namespace dabke::test {

/// An invariant does not hold.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PendingTokens {
 public:
  explicit PendingTokens(int ranks) : of_rank_(static_cast<std::size_t>(ranks)) {}

  /// Returns a token that differs from all others, of all ranks.
  negotiation::Token add(Rank rank, RequestRef request) {
    OfRank& mine = of_rank_[static_cast<std::size_t>(rank)];
    if (mine.free.empty()) {
      mine.free.push_back(mine.slots.size());
      mine.slots.emplace_back();
    }
    const std::size_t index = mine.free.back();
    mine.free.pop_back();
    const negotiation::Token token{++added_ << kIndexBits | index};
    mine.slots[index] = {token, std::move(request)};
    return token;
  }
  /// Throws Violation unless the token is pending on this rank.
  void complete(Rank rank, negotiation::Token token) {
    OfRank& mine = of_rank_[static_cast<std::size_t>(rank)];
    const std::size_t index = index_of(token);
    if (token == negotiation::Token::none || index >= mine.slots.size() || mine.slots[index].token != token) {
      throw Violation("rank " + std::to_string(rank) + " completes token " +
                      std::to_string(static_cast<std::uint64_t>(token)) + " once more, or not its own");
    }
    mine.free.push_back(index);
    mine.slots[index] = {};
  }
  /// Forgets the tokens of a dead rank.
  void drop(Rank rank) { of_rank_[static_cast<std::size_t>(rank)] = {}; }

  std::size_t count() const {
    std::size_t sum = 0;
    for (const OfRank& one : of_rank_) sum += one.slots.size() - one.free.size();
    return sum;
  }
  /// A pending request of this rank; null if there is none.
  RequestRef any(Rank rank) const {
    for (const Slot& slot : of_rank_[static_cast<std::size_t>(rank)].slots) {
      if (slot.token != negotiation::Token::none) return slot.request;
    }
    return nullptr;
  }
  /// A small number that no other pending token of the same rank has.
  static std::size_t index_of(negotiation::Token token) {
    return static_cast<std::uint64_t>(token) & ((1U << kIndexBits) - 1);
  }

 private:
  static constexpr int kIndexBits = 20;
  struct Slot {
    negotiation::Token token = negotiation::Token::none;  // none: the slot is free
    RequestRef request;
  };
  struct OfRank {
    std::vector<Slot> slots;
    std::vector<std::size_t> free;  // indices in `slots`
  };

  std::uint64_t added_ = 0;
  std::vector<OfRank> of_rank_;
};

}  // namespace dabke::test

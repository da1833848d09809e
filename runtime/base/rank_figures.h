// The figures that a rank sends while live statistics are shown.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/world.h"

namespace dabke {

struct RankFigures {
  /// The activity of the rank:
  ///   computes      nothing that it has submitted is pending
  ///   waits         a tensor is pending and no batch runs; usually other ranks have not submitted the tensor
  ///   communicates  a batch runs
  ///   idle          nothing is pending, and it has submitted nothing for a while
  enum class State : std::uint8_t { computes, waits, communicates, idle };

  Rank rank = -1;
  std::uint64_t steps = 0;    // the count of steps that it has marked
  std::uint64_t step = 0;     // the number of the last of them
  std::uint64_t step_us = 0;  // from the mark before to the last one; 0 if there is only one
  std::uint64_t bytes = 0;    // of this rank's inputs, in all batches that have run
  std::uint64_t batches = 0;
  std::uint64_t pending = 0;  // tensors that are submitted and not complete
  State state = State::idle;
  std::uint64_t state_ms = 0;  // time in this state, as far as it is known
  std::string what;  // the operation that it waits for or runs, such as "allreduce 'layer1.grad'", or empty

  bool operator==(const RankFigures&) const = default;
};

}  // namespace dabke

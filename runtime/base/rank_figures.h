// What a rank tells of itself while somebody looks at its job.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/world.h"

namespace dabke {

struct RankFigures {
  /// computes: nothing that it has submitted is pending. waits: something is, and nothing runs; other ranks have not
  /// submitted it, as a rule. communicates: a batch runs. idle: it has submitted nothing for a while, and nothing is pending.
  enum class State : std::uint8_t { computes, waits, communicates, idle };

  Rank rank = -1;
  std::uint64_t steps = 0;    // how often it has marked one
  std::uint64_t step = 0;     // the last that it has marked
  std::uint64_t step_us = 0;  // from the mark before to that one; 0: it is the first
  std::uint64_t bytes = 0;    // of this rank's inputs in all batches that have run
  std::uint64_t batches = 0;
  std::uint64_t pending = 0;  // tensors that are submitted and have not completed
  State state = State::idle;
  std::uint64_t state_ms = 0;  // since when, as far as is known
  std::string what;            // what it waits for or communicates, as "allreduce 'layer1.grad'"; else empty

  bool operator==(const RankFigures&) const = default;
};

}  // namespace dabke

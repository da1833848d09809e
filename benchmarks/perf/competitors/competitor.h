// A competitor runs a collective: a backend of Dabke, another library, or plain memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "benchmarks/perf/competitors/call.h"
#include "runtime/base/status.h"

namespace dabke::perf {

/// Every function that is not const is collective, on the thread that measures.
class Competitor {
 public:
  virtual ~Competitor() = default;
  virtual std::string name() const = 0;  // "dabke shm"
  virtual bool can_run(const Call& call) const = 0;
  /// True if the output is the result of the call; false if only memory is measured.
  virtual bool has_result() const { return true; }
  /// The choice for the last call that was begun, such as an algorithm; empty if there was none.
  virtual std::string detail() const { return {}; }
  /// Prepares for run()s of this call, which must live until end(). Only one competitor has begun at a time.
  virtual Status begin(const Call& call) = 0;
  virtual Status run() = 0;
  virtual void end() = 0;
};

/// The competitor that all others are compared with.
inline constexpr char kReference[] = "dabke shm";

}  // namespace dabke::perf

// The parts of a simulated elastic job that all others share: time, chance, the store, and the checks.
#pragma once

#include <chrono>
#include <functional>
#include <random>
#include <string>

#include "runtime/negotiation/negotiator.h"
#include "tests/sim/elastic/elastic_invariants.h"
#include "tests/sim/elastic/sim_store.h"
#include "tests/sim/event_queue.h"

namespace dabke::test {

/// Mistakes that a simulation must find.
enum class Mistake {
  none,
  ignores_roster,        // a rank that has any commit takes itself for a holder
  announces_by_message,  // each rank learns of a change by itself, not by an order
  links_outlive_epochs,  // messages of an epoch reach processes that are in the next one
  counts_unfinished,     // a rank counts the commit that a failure has prevented
  forgets_leavers,       // a process that may leave gets no answer
  forgets_newcomers,     // a change is not announced
  counts_old_changes,    // changes announced before an epoch count in it
};

/// The training program, the same on every rank.
struct TrainingProgram {
  int steps = 50;
  int tensors = 3;
  int steps_per_commit = 1;
  Duration think = std::chrono::microseconds(100);  // the longest pause before an operation
};

struct ElasticWorld {
  EventQueue queue;
  std::mt19937 random;
  ElasticInvariants invariants;
  SimStore store;
  Mistake mistake = Mistake::none;
  TrainingProgram program;
  negotiation::Negotiator::Options negotiator;
  int radix = 2;
  Duration hop = std::chrono::microseconds(10);           // shortest delay of a message
  int jitter = 5;                                         // largest extra delay, as a multiple of the hop
  Duration peer_timeout = std::chrono::milliseconds(20);  // DABKE_PEER_TIMEOUT_SECONDS
  Duration start_time = std::chrono::milliseconds(2);     // the longest time from a process's start to init

  TimePoint now() const { return queue.now(); }
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); }
  bool chance(double of) { return std::uniform_real_distribution<double>(0, 1)(random) < of; }
  /// A time between nothing and `most`.
  Duration moment(Duration most) {
    return Duration(std::uniform_int_distribution<Duration::rep>(0, most.count())(random));
  }
  /// The delay of one message.
  Duration delay() { return hop + moment(hop * jitter); }
};

}  // namespace dabke::test

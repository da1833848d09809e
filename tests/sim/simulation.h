// The negotiators of all ranks of a job in one process, and the handling of their actions.
//
// A scheduler decides what happens next, and when: SimulatedJob delivers messages one by one, Sim after
// delays of virtual time. Every action is checked against the invariants before the scheduler sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/negotiation/negotiator.h"
#include "tests/sim/invariants.h"

namespace dabke::test {

/// A scheduler. It handles each action of a living rank.
class ActionSink {
 public:
  virtual ~ActionSink() = default;
  virtual void send(Rank from, const negotiation::SendAction& action) = 0;
  /// The tokens are still pending; the scheduler completes them when it has run the orders.
  virtual void execute(Rank rank, const negotiation::ExecuteAction& action) = 0;
  /// The token is no longer pending.
  virtual void complete(Rank rank, const negotiation::CompleteAction& action) = 0;
  /// Any other action.
  virtual void note(Rank rank, negotiation::Action& action) = 0;
};

class Simulation {
 public:
  /// One rank for each rank of `options.topology`. The ranks in `without_devices` have only the host.
  Simulation(negotiation::Negotiator::Options options, const std::vector<Rank>& without_devices);

  int ranks() const { return static_cast<int>(nodes_.size()); }
  negotiation::Negotiator& negotiator(Rank rank) { return *nodes_[at(rank)].negotiator; }
  const std::shared_ptr<const negotiation::Topology>& topology() const { return topology_; }
  Invariants& invariants() { return invariants_; }
  const Invariants& invariants() const { return invariants_; }
  bool is_dead(Rank rank) const { return nodes_[at(rank)].dead; }
  bool is_over(Rank rank) const { return nodes_[at(rank)].over; }
  std::uint64_t warnings() const { return warnings_; }
  const std::string& last_warning() const { return last_warning_; }

  TimePoint now() const { return now_; }
  void advance_to(TimePoint now) { now_ = now; }

  // Each of these is an event of one rank, and perform() must follow it. A dead rank has no events.
  negotiation::Token submit(Rank rank, RequestRef request);
  void deliver(Rank from, Rank to, std::span<const std::byte> message);
  void report_loss(Rank lost, Rank to);
  void tick(Rank rank);

  /// Performs the actions of the rank's negotiator.
  void perform(Rank rank, ActionSink& sink);
  /// Stops the rank at once. report_loss() informs its neighbours.
  void kill(Rank rank);

  /// Checks the state when no event is left: nothing is pending, and all living
  /// ranks have the same table of slots.
  void check_quiet();

 private:
  struct Node {
    std::unique_ptr<negotiation::Negotiator> negotiator;
    bool dead = false;
    bool over = false;
  };
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

  std::shared_ptr<const negotiation::Topology> topology_;
  TimePoint now_{std::chrono::hours(1)};
  std::vector<Node> nodes_;
  Invariants invariants_;
  std::uint64_t warnings_ = 0;
  std::string last_warning_;
};

/// Hosts of `ranks_per_host` ranks each.
std::shared_ptr<const negotiation::Topology> tree_of(int size, int ranks_per_host, int radix);

}  // namespace dabke::test

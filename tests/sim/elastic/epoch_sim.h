// One epoch of a simulated elastic job: the negotiators of its members, the links between them, and the
// exchange of values.
//
//   1. The epoch exists as soon as its plan is open. Events of a member that has not joined yet wait for it.
//   2. A run ends on each member at a time of its own, once all members have executed the order. So it may
//      end well on one member and fail on another.
//   3. When a negotiation fails on a member, its runs in flight fail as well.
//   4. A member that has died, or has left, is closed: its neighbours lose the link. A member that stands
//      still is given up by its neighbours on other hosts after the peer timeout.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/sim/elastic/elastic_world.h"
#include "tests/sim/elastic/sim_process.h"
#include "tests/sim/simulation.h"

namespace dabke::test {

class EpochSim final : private ActionSink {
 public:
  struct Result {
    Status status;
    Values values{};
    std::uint64_t changes = 0;
  };
  using Done = std::function<void(const Result&)>;
  using Message = std::shared_ptr<const std::vector<std::byte>>;

  /// `members` are by rank. `leak`, if not empty, gets the messages to members that are closed.
  EpochSim(ElasticWorld& world, bootstrap::EpochPlan plan, const std::vector<SimProcess*>& members,
           std::function<void(Rank from, Rank to, const Message&)> leak);

  const bootstrap::EpochPlan& plan() const { return plan_; }
  bool is_anybody_lost() const { return is_anybody_lost_; }
  /// True if a message from one to the other is possible: they are neighbours, and the receiver has joined.
  bool is_link(Rank from, Rank to) const {
    const auto neighbours = simulation_.topology()->neighbours(to);
    return nodes_[at(to)].has_joined && std::ranges::find(neighbours, from) != neighbours.end();
  }

  // Called within an event of the rank's process.
  void join(Rank rank);
  void submit(Rank rank, RequestRef request, const Values& values, Done done);
  /// Calls `left` when the negotiation is over on this rank and its runs have ended.
  void leave(Rank rank, std::function<void()> left);
  void announce_change(std::uint64_t changes);

  /// The process has left the epoch in good order, or after a failure.
  void close(Rank rank);
  /// The process is dead.
  void lose(Rank rank);
  /// The process stands still from now on.
  void fall_silent(Rank rank);
  /// The process is reported as lost before it has joined.
  void give_up(Rank rank);
  void deliver(Rank from, Rank to, std::span<const std::byte> message);

 private:
  struct Call {
    Values values;
    Done done;
  };
  struct Running {
    negotiation::Token token;
    std::uint64_t changes;
  };
  struct Node {
    SimProcess* process = nullptr;
    bool has_joined = false, is_closed = false;
    std::vector<std::function<void()>> before_join;
    std::unordered_map<negotiation::Token, Call> calls;
    std::map<std::uint64_t, Running> running;  // by the order's number
    std::map<Rank, TimePoint> link_free_at;
    TimePoint tick_at = kNever;
    std::function<void()> left;
  };
  struct Exchange {
    RequestRef agreed;
    std::map<Rank, Values> given;
  };
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  static std::pair<Rank, Rank> link_of(Rank a, Rank b) { return std::minmax(a, b); }
  void at_rank(TimePoint when, Rank rank, std::function<void()> event);
  void run_at(Rank rank, std::function<void()> event);
  void settle(Rank rank);
  void break_link(Rank rank, Rank peer);
  TimePoint arrival_at(Rank from, Rank to);
  void finish(Rank rank, std::uint64_t number);
  void abort_runs(Rank rank, const Status& cause);
  Call take_call(Rank rank, negotiation::Token token);
  void send(Rank from, const negotiation::SendAction& action) override;
  void execute(Rank rank, const negotiation::ExecuteAction& action) override;
  void complete(Rank rank, const negotiation::CompleteAction& action) override;
  void note(Rank rank, negotiation::Action& action) override;

  ElasticWorld& world_;
  const bootstrap::EpochPlan plan_;
  const std::function<void(Rank, Rank, const Message&)> leak_;
  Simulation simulation_;
  std::vector<Node> nodes_;
  std::map<std::uint64_t, Exchange> exchanges_;  // by the order's number, until all members have ended
  std::set<std::pair<Rank, Rank>> broken_;       // links
  bool is_anybody_lost_ = false;
};

}  // namespace dabke::test

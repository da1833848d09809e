// The negotiation of thousands of ranks under virtual time.
//
// Every link keeps its order and has its own random delay. A seed decides which event comes next, so a run
// can be replayed. Simulation checks all actions against the invariants.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/event_queue.h"
#include "tests/sim/simulation.h"

namespace dabke::test {

struct SimOptions {
  int ranks = 4;
  int ranks_per_host = 2;
  int radix = 2;
  unsigned seed = 1;
  Duration hop = std::chrono::microseconds(10);  // shortest delay of a message
  double jitter = 5;                             // largest extra delay, as a multiple of the hop
  double seconds_per_byte = 1e-9;                // of the data plane
  Duration batch_time = std::chrono::microseconds(20);
  Rank without_devices = -1;  // this rank has only the host
  negotiation::Negotiator::Options negotiator;
};

struct Completed {
  Status status;
  bool ran = false;
  std::int64_t value = 0;
  int contributors = 0;
};

struct Traffic {
  std::uint64_t received_messages = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t parent_link_bytes = 0;  // both ways
  double cpu_seconds = 0;               // of the root only
};

/// One input of the root's negotiator.
struct RootInput {
  enum class Kind { submit, message, tick, settle };
  TimePoint at{};
  Kind kind = Kind::submit;
  negotiation::Token token = negotiation::Token::none;
  RequestRef request{};
  Rank from = -1;
  std::shared_ptr<const std::vector<std::byte>> message{};
  DeviceTypes busy{};  // settle: the data planes that were busy
};

class Sim final : private ActionSink {
 public:
  explicit Sim(const SimOptions& options);

  int ranks() const { return simulation_.ranks(); }
  TimePoint now() const { return simulation_.now(); }
  std::mt19937& random() { return random_; }
  bool is_dead(Rank rank) const { return simulation_.is_dead(rank); }
  bool is_over(Rank rank) const { return simulation_.is_over(rank); }
  const Traffic& traffic(Rank rank) const { return nodes_[at(rank)].traffic; }
  void forget_traffic();
  /// Appends all inputs of the root's negotiator to `to` from now on.
  void record_root(std::vector<RootInput>& to) { recording_ = &to; }
  const std::shared_ptr<const negotiation::Topology>& topology() const { return simulation_.topology(); }
  std::uint64_t warnings() const { return simulation_.warnings(); }
  std::uint64_t events() const { return queue_.events(); }
  std::uint64_t orders(Rank rank) const { return nodes_[at(rank)].executed; }
  std::uint64_t batches(Rank rank) const { return nodes_[at(rank)].execute_actions; }
  const std::string& last_warning() const { return simulation_.last_warning(); }

  /// Calls `done` when the operation completes, outside of the negotiator's work.
  void submit(Rank rank, RequestRef request, std::function<void(const Completed&)> done);
  void want(Rank rank, ProcessSetId set, const std::string& name);
  void leave(Rank rank);
  /// So many changes of the job's hosts have been announced.
  void announce_change(std::uint64_t changes);
  void kill(Rank rank);
  void after(Duration delay, std::function<void()> then);

  /// Runs until no event is left, or until `limit` of virtual time has passed.
  void run(Duration limit);
  /// Calls Simulation::check_quiet().
  void check_quiet() { simulation_.check_quiet(); }
  std::size_t pending() const { return simulation_.invariants().tokens().count(); }

 private:
  using Done = std::function<void(const Completed&)>;
  struct Node {
    std::uint64_t executed = 0;
    std::uint64_t execute_actions = 0;
    TimePoint tick_at = kNever;
    ByDeviceType<TimePoint> lane_free_at;
    std::map<Rank, TimePoint> link_free_at;
    std::vector<Done> done;  // by the index of the pending token
    Traffic traffic;
  };
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  void schedule(TimePoint when, std::function<void()> run);
  void settle(Rank rank);
  void send(Rank from, const negotiation::SendAction& action) override;
  void execute(Rank rank, const negotiation::ExecuteAction& action) override;
  void complete(Rank rank, const negotiation::CompleteAction& action) override;
  void note(Rank, negotiation::Action&) override {}
  DeviceTypes busy_planes(const Node& node) const;
  void run_on_lane(Rank rank, DeviceType type, std::size_t bytes,
                   std::vector<std::pair<negotiation::Token, int>> tokens);
  /// Takes the function of a token that is no longer pending.
  Done take_done(Rank rank, negotiation::Token token);
  Duration delay();
  bool is_recorded(Rank rank) const {
    return recording_ != nullptr && rank == negotiation::Negotiator::kRoot;
  }

  SimOptions options_;
  std::vector<RootInput>* recording_ = nullptr;
  Simulation simulation_;
  std::mt19937 random_;
  EventQueue queue_;
  std::vector<Node> nodes_;
};

}  // namespace dabke::test

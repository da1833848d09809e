// Thousands of negotiation negotiators in one process, under virtual time.
//
// Every link keeps its order and has its own random delay; which event comes next is decided by a seed, so a
// run can be replayed. After every event what happened is held against the invariants: an order means the
// same on every rank that executes it, numbers only go up, every member of a set runs its tensors in the same
// batches, and a token completes once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/negotiation/negotiator.h"

namespace dabke::test {

/// An invariant does not hold.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct SimOptions {
  int ranks = 4;
  int ranks_per_host = 2;
  int radix = 2;
  unsigned seed = 1;
  Duration hop = std::chrono::microseconds(10);  // least delay of a message
  double jitter = 5;                             // times the hop, at most, on top
  double seconds_per_byte = 1e-9;                // the data plane's
  Duration batch_time = std::chrono::microseconds(20);
  Rank without_devices = -1;  // this one has nothing but the host
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
  double cpu_seconds = 0;               // the root's only
};

/// One thing that was done to the root's negotiator.
struct RootInput {
  enum class Kind { submit, message, tick, settle };
  TimePoint at{};
  Kind kind = Kind::submit;
  negotiation::Token token = negotiation::Token::none;
  RequestRef request{};
  Rank from = -1;
  std::shared_ptr<const std::vector<std::byte>> message{};
  DeviceTypes busy{};  // settle: the data planes that were
};

class Sim {
 public:
  explicit Sim(SimOptions options);

  int ranks() const { return options_.ranks; }
  TimePoint now() const { return now_; }
  std::mt19937& random() { return random_; }
  negotiation::Negotiator& negotiator(Rank rank) { return *nodes_[at(rank)].negotiator; }
  bool is_dead(Rank rank) const { return nodes_[at(rank)].dead; }
  bool is_over(Rank rank) const { return nodes_[at(rank)].over; }
  const Traffic& traffic(Rank rank) const { return nodes_[at(rank)].traffic; }
  void forget_traffic();
  /// Adds to `to` all that is done to the root's negotiator from now on.
  void record_root(std::vector<RootInput>& to) { recording_ = &to; }
  const std::shared_ptr<const negotiation::Topology>& topology() const { return topology_; }
  std::uint64_t warnings() const { return warnings_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t orders(Rank rank) const { return nodes_[at(rank)].executed; }
  std::uint64_t batches(Rank rank) const { return nodes_[at(rank)].execute_actions; }
  const std::string& last_warning() const { return last_warning_; }

  /// `done` is called when it completes, outside of what the negotiator does.
  void submit(Rank rank, RequestRef request, std::function<void(const Completed&)> done);
  void want(Rank rank, ProcessSetId set, const std::string& name);
  void leave(Rank rank);
  void kill(Rank rank);
  void after(Duration delay, std::function<void()> then);

  /// Runs until nothing is left to happen, or `limit` of virtual time is over.
  void run(Duration limit);
  /// What must hold when nothing is under way any more: nothing pending, and one table of slots on all living
  /// ranks.
  void check_quiet();
  std::size_t pending() const;

 private:
  struct Event {
    TimePoint at;
    std::uint64_t sequence;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return std::pair(at, sequence) > std::pair(other.at, other.sequence);
    }
  };
  struct Pending {
    negotiation::Token token = negotiation::Token::none;  // none: it is free
    RequestRef request;
    std::function<void(const Completed&)> done;
  };
  struct Node {
    std::unique_ptr<negotiation::Negotiator> negotiator;
    bool dead = false;
    bool over = false;
    std::uint64_t last_number = 0;
    std::pair<std::uint64_t, std::uint32_t> last_batch;
    std::uint64_t executed = 0;
    std::uint64_t execute_actions = 0;
    TimePoint tick_at = kNever;
    ByDeviceType<TimePoint> lane_free_at;
    std::map<Rank, TimePoint> link_free_at;
    std::vector<Pending> pending;
    std::vector<std::size_t> free;  // indices in `pending`
    Traffic traffic;
  };
  struct Agreed {
    RequestRef request;
    int contributors;
    int seen = 0;
  };
  /// A tensor of a batch: the number of its order, and its index in the request.
  using BatchOfTensors = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
  struct RunBatch {
    BatchOfTensors tensors;
    int seen = 0;
  };
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  void schedule(TimePoint when, std::function<void()> run);
  void settle(Rank rank);
  void send(Rank from, const negotiation::SendAction& action);
  DeviceTypes busy_planes(const Node& node) const;
  void execute(Rank rank, const negotiation::ExecuteAction& action);
  void run_on_lane(Rank rank, DeviceType type, std::size_t bytes,
                   std::vector<std::pair<negotiation::Token, int>> tokens);
  void check_batches(Rank rank, const negotiation::ExecuteAction& action);
  void check_batch(Rank rank, const BatchOfTensors& batch, ProcessSetId set);
  /// What is pending under the token, and is no longer.
  Pending take(Rank rank, negotiation::Token token);
  Duration delay();
  bool is_recorded(Rank rank) const {
    return recording_ != nullptr && rank == negotiation::Negotiator::kRoot;
  }

  SimOptions options_;
  std::vector<RootInput>* recording_ = nullptr;
  std::shared_ptr<const negotiation::Topology> topology_;
  std::mt19937 random_;
  TimePoint now_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t events_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::vector<Node> nodes_;
  std::uint64_t submitted_ = 0;
  std::unordered_map<std::uint64_t, Agreed> agreed_;                     // by number
  std::map<std::pair<std::uint64_t, std::uint32_t>, RunBatch> batches_;  // by their first tensors
  std::uint64_t warnings_ = 0;
  std::string last_warning_;
};

}  // namespace dabke::test

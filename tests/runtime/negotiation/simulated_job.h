// The negotiation of a few ranks. The test delivers the messages one by one. The links keep their order, and
// a seed decides how they interleave. Simulation checks all actions against the invariants.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/simulation.h"

namespace dabke::test {

struct Outcome {
  int completions = 0;
  bool ran = false;  // completed by an ExecuteAction
  Status status;
  std::int64_t value = 0;
  int contributors = 0;
  std::uint64_t changes = 0;
};

class SimulatedJob final : private ActionSink {
 public:
  /// The ranks in `without_devices` have only the host.
  explicit SimulatedJob(int size, unsigned seed = 1, negotiation::Negotiator::Options options = {},
                        const std::vector<Rank>& without_devices = {});

  int size() const { return simulation_.ranks(); }
  negotiation::Negotiator& negotiator(Rank rank) { return simulation_.negotiator(rank); }
  TimePoint now() const { return simulation_.now(); }
  void advance(Duration by);

  /// Submits and returns the token.
  negotiation::Token submit(Rank rank, Request request);
  /// The same, but the rank does not act on it yet.
  negotiation::Token hand_in(Rank rank, Request request);
  /// Delivers messages in random interleaving until there are none left.
  void run();
  /// Delivers one message of a random link, if there is any.
  bool step();
  /// The rank dies: its messages under way still arrive, then its peers notice the loss.
  void kill(Rank rank);
  /// The rank stands still: it does nothing, and reads no message.
  void stop(Rank rank) { ranks_[static_cast<std::size_t>(rank)].stopped = true; }

  const Outcome& outcome(negotiation::Token token) const { return outcomes_.at(token); }
  /// Every token completed exactly once.
  bool all_complete() const;
  /// Calls Simulation::check_quiet().
  void check_quiet() { simulation_.check_quiet(); }
  /// The calls that this rank ran, as "set:name" in order.
  const std::vector<std::string>& executed(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank)].executed;
  }
  /// The batches that this rank ran, each as "set: name, name", in order. Groups have all their tensors.
  const std::vector<std::string>& batches(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank)].batches;
  }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// For each warning, the short form that is logged if a launcher reports the rest.
  const std::vector<std::string>& briefs() const { return briefs_; }
  /// The dumps that this rank was asked for, in order.
  const std::vector<negotiation::DumpAction>& dumps(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank)].dumps;
  }
  /// The warnings of this rank only.
  const std::vector<std::string>& warnings(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank)].warnings;
  }
  /// The number of stacks that were requested from this rank.
  int stacks_wanted(Rank rank) const { return ranks_[static_cast<std::size_t>(rank)].stacks_wanted; }
  /// The changes of this rank's timeline, each with the number of the last executed order.
  const std::vector<std::pair<std::uint64_t, wire::TimelineChange>>& timeline(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank)].timeline;
  }
  bool is_over(Rank rank) const { return simulation_.is_over(rank); }
  std::size_t messages() const { return messages_; }
  std::size_t bytes() const { return bytes_; }
  /// Delivers the next message of this link, if there is one.
  bool step_link(Rank from, Rank to);
  /// The same, but `to` does not act on it yet: a real rank reads several messages at a time.
  bool deliver(Rank from, Rank to);

 private:
  struct SimulatedRank {
    std::vector<std::string> executed;
    std::vector<std::string> batches;
    std::vector<negotiation::DumpAction> dumps;
    std::vector<std::string> warnings;
    int stacks_wanted = 0;
    std::vector<std::pair<std::uint64_t, wire::TimelineChange>> timeline;
    bool stopped = false;
  };
  void take_actions(Rank rank) { simulation_.perform(rank, *this); }
  void send(Rank from, const negotiation::SendAction& action) override;
  void execute(Rank rank, const negotiation::ExecuteAction& action) override;
  void complete(Rank rank, const negotiation::CompleteAction& action) override;
  void note(Rank rank, negotiation::Action& action) override;

  Simulation simulation_;
  std::mt19937 random_;
  std::vector<SimulatedRank> ranks_;
  std::map<std::pair<Rank, Rank>, std::deque<std::shared_ptr<const std::vector<std::byte>>>> links_;
  std::map<negotiation::Token, Outcome> outcomes_;
  std::vector<std::string> warnings_;
  std::vector<std::string> briefs_;
  std::vector<Rank> losses_;
  std::size_t messages_ = 0;
  std::size_t bytes_ = 0;
};

/// A request for a tensor of float32.
Request allreduce(const std::string& name, Shape shape = {4}, ProcessSetId set = kWorldSet);
Request plain(CollectiveKind kind, const std::string& name, ProcessSetId set = kWorldSet);

}  // namespace dabke::test

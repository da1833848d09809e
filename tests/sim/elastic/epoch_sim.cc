#include "tests/sim/elastic/epoch_sim.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::test {
namespace {

using negotiation::Token;

negotiation::Negotiator::Options options_of(const ElasticWorld& world, const bootstrap::EpochPlan& plan) {
  std::vector<std::string> hosts;
  for (const bootstrap::EpochMember& member : plan.members) hosts.push_back(member.host);
  negotiation::Negotiator::Options options = world.negotiator;
  const auto size = static_cast<int>(hosts.size());
  options.topology = std::make_shared<const negotiation::Topology>(size, std::move(hosts), world.radix);
  return options;
}

/// Every tensor has the number of its epoch as a dimension, so an order shows from which epoch it comes.
std::uint64_t epoch_of(const Request& request) {
  return static_cast<std::uint64_t>(request.tensors[0].shape.dims()[0]);
}

}  // namespace

EpochSim::EpochSim(ElasticWorld& world, bootstrap::EpochPlan plan, const std::vector<SimProcess*>& members,
                   std::function<void(Rank, Rank, const Message&)> leak)
    : world_(world),
      plan_(std::move(plan)),
      leak_(std::move(leak)),
      simulation_(options_of(world, plan_), {}),
      nodes_(plan_.members.size()) {
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) nodes_[rank].process = members[rank];
}

void EpochSim::at_rank(TimePoint when, Rank rank, std::function<void()> event) {
  world_.queue.schedule(when,
                        [this, rank, event = std::move(event)]() mutable { run_at(rank, std::move(event)); });
}

/// Runs the event on the rank: now, or when it has joined, or when its process is awake again.
void EpochSim::run_at(Rank rank, std::function<void()> event) {
  Node& node = nodes_[at(rank)];
  if (node.is_closed) return;
  if (!node.has_joined) return node.before_join.push_back(std::move(event));
  node.process->gate.run([this, &node, event = std::move(event)] {
    if (node.is_closed) return;
    simulation_.advance_to(world_.now());
    event();
  });
}

void EpochSim::join(Rank rank) {
  Node& node = nodes_[at(rank)];
  node.has_joined = true;
  for (auto& event : std::exchange(node.before_join, {})) run_at(rank, std::move(event));
}

void EpochSim::submit(Rank rank, RequestRef request, const Values& values, Done done) {
  simulation_.advance_to(world_.now());
  const Token token = simulation_.submit(rank, std::move(request));
  nodes_[at(rank)].calls[token] = {values, std::move(done)};
  settle(rank);
}

void EpochSim::leave(Rank rank, std::function<void()> left) {
  simulation_.advance_to(world_.now());
  simulation_.negotiator(rank).leave(world_.now());
  nodes_[at(rank)].left = std::move(left);
  settle(rank);
}

void EpochSim::announce_change(std::uint64_t changes) {
  constexpr Rank kRoot = negotiation::Negotiator::kRoot;
  simulation_.advance_to(world_.now());
  simulation_.negotiator(kRoot).announce_change(changes);
  settle(kRoot);
}

void EpochSim::close(Rank rank) {
  Node& node = nodes_[at(rank)];
  if (std::exchange(node.is_closed, true)) return;
  simulation_.kill(rank);
  node.before_join.clear();
  for (const Rank peer : simulation_.topology()->neighbours(rank)) {
    at_rank(arrival_at(rank, peer), peer, [this, rank, peer] {
      if (broken_.contains(link_of(rank, peer))) return;
      simulation_.report_loss(rank, peer);
      settle(peer);
    });
  }
}

void EpochSim::lose(Rank rank) {
  if (nodes_[at(rank)].is_closed) return;
  is_anybody_lost_ = true;
  close(rank);
}

void EpochSim::fall_silent(Rank rank) {
  const Node& node = nodes_[at(rank)];
  // A rank that has not joined may be in init still.
  if (node.is_closed || !node.has_joined) return;
  for (const Rank peer : simulation_.topology()->neighbours(rank)) {
    if (plan_.members[at(rank)].host == plan_.members[at(peer)].host) continue;
    const TimePoint when = world_.now() + world_.peer_timeout + world_.moment(world_.peer_timeout / 2);
    at_rank(when, peer, [this, rank, peer, &node, stops = node.process->gate.stops()] {
      if (node.process->gate.is_stopped() && node.process->gate.stops() == stops) break_link(rank, peer);
    });
  }
}

void EpochSim::give_up(Rank rank) {
  if (nodes_[at(rank)].is_closed || nodes_[at(rank)].has_joined) return;
  for (const Rank peer : simulation_.topology()->neighbours(rank)) {
    at_rank(world_.now() + world_.delay(), peer, [this, rank, peer] { break_link(rank, peer); });
  }
}

/// `peer` gives `rank` up.
void EpochSim::break_link(Rank rank, Rank peer) {
  if (!broken_.insert(link_of(rank, peer)).second) return;
  is_anybody_lost_ = true;
  simulation_.report_loss(rank, peer);
  settle(peer);
  at_rank(world_.now(), rank, [this, rank, peer] {
    simulation_.report_loss(peer, rank);
    settle(rank);
  });
}

/// When something that is sent now arrives. Links keep their order.
TimePoint EpochSim::arrival_at(Rank from, Rank to) {
  TimePoint& free_at = nodes_[at(from)].link_free_at[to];
  return free_at = std::max(free_at, world_.now() + world_.delay());
}

void EpochSim::settle(Rank rank) {
  Node& node = nodes_[at(rank)];
  if (node.is_closed) return;
  negotiation::Negotiator& negotiator = simulation_.negotiator(rank);
  negotiator.set_data_plane_busy(DeviceType::host, node.running.size() > 1);
  simulation_.perform(rank, *this);
  const TimePoint tick = negotiator.next_tick();
  if (tick < node.tick_at) {
    node.tick_at = tick;
    at_rank(tick, rank, [this, rank] {
      nodes_[at(rank)].tick_at = kNever;
      simulation_.tick(rank);
      settle(rank);
    });
  }
  if (node.left && negotiator.is_over() && node.running.empty() && node.calls.empty())
    at_rank(world_.now(), rank, std::exchange(node.left, nullptr));
}

void EpochSim::send(Rank from, const negotiation::SendAction& action) {
  const Rank to = action.peer;
  const TimePoint when = arrival_at(from, to);
  if (leak_ && nodes_[at(to)].is_closed) {
    world_.queue.schedule(when, [this, from, to, message = action.message] { leak_(from, to, message); });
    return;
  }
  at_rank(when, to, [this, from, to, message = action.message] {
    if (!broken_.contains(link_of(from, to))) deliver(from, to, *message);
  });
}

void EpochSim::deliver(Rank from, Rank to, std::span<const std::byte> message) {
  simulation_.advance_to(world_.now());
  simulation_.deliver(from, to, message);
  settle(to);
}

void EpochSim::execute(Rank rank, const negotiation::ExecuteAction& action) {
  Node& node = nodes_[at(rank)];
  for (const negotiation::OrderedRequest& ordered : action.requests) {
    const auto call = node.calls.find(ordered.token);
    if (call == node.calls.end())
      throw Violation(fmt::format("epoch {}: rank {} executes '{}', which it has not submitted", plan_.epoch,
                                  rank, ordered.agreed->name));
    const SimProcess& process = *node.process;
    world_.invariants.execute(plan_, rank, process.worker, process.epoch, epoch_of(*ordered.agreed));
    Exchange& exchange = exchanges_[ordered.number];
    exchange.agreed = ordered.agreed;
    exchange.given[rank] = call->second.values;
    node.running[ordered.number] = {ordered.token, ordered.changes};
    if (exchange.given.size() < nodes_.size()) continue;
    for (Rank member = 0; member < static_cast<Rank>(nodes_.size()); ++member) {
      at_rank(world_.now() + world_.delay(), member,
              [this, member, number = ordered.number] { finish(member, number); });
    }
  }
}

void EpochSim::finish(Rank rank, std::uint64_t number) {
  Node& node = nodes_[at(rank)];
  const auto found = node.running.find(number);
  if (found == node.running.end()) return;  // it has failed
  const Running run = found->second;
  node.running.erase(found);
  simulation_.invariants().tokens().complete(rank, run.token);
  const Exchange& exchange = exchanges_.at(number);
  Result result{{}, {}, run.changes};
  if (exchange.agreed->kind == CollectiveKind::broadcast) {
    result.values = exchange.given.at(exchange.agreed->root);
  } else {
    for (const auto& [from, values] : exchange.given) {
      for (std::size_t i = 0; i < values.size(); ++i) result.values[i] += values[i];
    }
  }
  if (const Done done = take_call(rank, run.token).done) done(result);
  settle(rank);
}

void EpochSim::abort_runs(Rank rank, const Status& cause) {
  for (const auto& [number, run] : std::exchange(nodes_[at(rank)].running, {})) {
    simulation_.invariants().tokens().complete(rank, run.token);
    if (const Done done = take_call(rank, run.token).done) done({cause});
  }
  settle(rank);
}

void EpochSim::complete(Rank rank, const negotiation::CompleteAction& action) {
  Call call = take_call(rank, action.token);
  if (!call.done) return;
  // Scheduled, so that the program's next step comes after the current work of the negotiator.
  at_rank(
      world_.now(), rank,
      [done = std::move(call.done), result = Result{action.status, {}, action.changes}] { done(result); });
}

void EpochSim::note(Rank rank, negotiation::Action& action) {
  const auto* const over = std::get_if<negotiation::OverAction>(&action);
  if (over == nullptr || over->cause.is_ok()) return;
  at_rank(world_.now(), rank, [this, rank, cause = over->cause] { abort_runs(rank, cause); });
}

EpochSim::Call EpochSim::take_call(Rank rank, Token token) {
  Node& node = nodes_[at(rank)];
  const auto found = node.calls.find(token);
  if (found == node.calls.end()) return {};
  Call call = std::move(found->second);
  node.calls.erase(found);
  return call;
}

}  // namespace dabke::test

#include "tests/sim/simulation.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::test {
namespace {

using negotiation::Negotiator;

std::unique_ptr<Negotiator> negotiator_of(Rank rank, Negotiator::Options options, bool has_devices) {
  options.rank = rank;
  if (has_devices) options.serves = {DeviceType::cuda};
  return std::make_unique<Negotiator>(std::move(options));
}

}  // namespace

std::shared_ptr<const negotiation::Topology> tree_of(int size, int ranks_per_host, int radix) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back(fmt::format("node{}", rank / ranks_per_host));
  return std::make_shared<const negotiation::Topology>(size, std::move(hosts), radix);
}

Simulation::Simulation(Negotiator::Options options, const std::vector<Rank>& without_devices)
    : topology_(options.topology),
      nodes_([&] {
        std::vector<Node> nodes(at(topology_->size()));
        for (Rank rank = 0; rank < topology_->size(); ++rank) {
          const bool has_devices = std::ranges::count(without_devices, rank) == 0;
          nodes[at(rank)].negotiator = negotiator_of(rank, options, has_devices);
        }
        return nodes;
      }()),
      invariants_(ranks(), nodes_.front().negotiator->sets()) {}

negotiation::Token Simulation::submit(Rank rank, RequestRef request) {
  const negotiation::Token token = invariants_.tokens().add(rank, request);
  negotiator(rank).submit(token, std::move(request), now_);
  return token;
}

void Simulation::deliver(Rank from, Rank to, std::span<const std::byte> message) {
  if (!is_dead(to)) negotiator(to).message_from(from, message, now_);
}

void Simulation::report_loss(Rank lost, Rank to) {
  if (is_dead(to)) return;
  negotiator(to).peer_lost(lost, {Code::peer_lost, fmt::format("rank {}: connection reset", lost)});
}

void Simulation::tick(Rank rank) {
  if (!is_dead(rank)) negotiator(rank).tick(now_);
}

void Simulation::kill(Rank rank) {
  nodes_[at(rank)].dead = true;
  invariants_.tokens().drop(rank);
}

void Simulation::perform(Rank rank, ActionSink& sink) {
  Node& node = nodes_[at(rank)];
  if (node.dead) return;
  for (negotiation::Action& action : node.negotiator->take_actions(now_)) {
    if (const auto* send = std::get_if<negotiation::SendAction>(&action)) {
      sink.send(rank, *send);
    } else if (const auto* execute = std::get_if<negotiation::ExecuteAction>(&action)) {
      invariants_.execute(rank, *execute);
      sink.execute(rank, *execute);
    } else if (const auto* done = std::get_if<negotiation::CompleteAction>(&action)) {
      invariants_.tokens().complete(rank, done->token);
      sink.complete(rank, *done);
    } else if (const auto* set = std::get_if<negotiation::ProcessSetAction>(&action)) {
      invariants_.change_set(rank, *set);
      sink.note(rank, action);
    } else if (const auto* warn = std::get_if<negotiation::WarnAction>(&action)) {
      ++warnings_;
      last_warning_ = warn->text;
      sink.note(rank, action);
    } else {
      if (std::holds_alternative<negotiation::OverAction>(action)) node.over = true;
      sink.note(rank, action);
    }
  }
}

void Simulation::check_quiet() {
  for (Rank rank = 0; rank < ranks(); ++rank) {
    if (const RequestRef request = invariants_.tokens().any(rank)) {
      throw Violation(fmt::format(
          "{} operations never completed; '{}' of rank {} is one of them: {} {}",
          invariants_.tokens().count(), request->name, rank,
          negotiation::difference_in_tables(negotiator(rank).state(), negotiator(0).state()), last_warning_));
    }
  }
  if (is_dead(0) || is_over(0)) return;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    if (is_dead(rank) || is_over(rank)) continue;
    const std::string what =
        negotiation::difference_in_tables(negotiator(rank).state(), negotiator(0).state());
    if (!what.empty()) throw Violation(fmt::format("rank {} and the root differ: {}", rank, what));
  }
}

}  // namespace dabke::test
